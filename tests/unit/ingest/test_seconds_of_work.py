"""The time that batches of a snapshot took, of which the estimate of the time left is made."""

from __future__ import annotations

import os
from pathlib import Path

from framework.foundation.files.local_storage import LocalStorage
from framework.ingest.progress import seconds_of_work

# Number of the batch, seconds of the file of its offsets and of its commit.
BATCHES = ((0, 0, 10), (1, 11, 21), (2, 3600, 3610), (3, 3611, 7210), (4, 7211, 7221), (5, 7222, 7232))


def test_pauses_between_and_within_batches_are_no_work(tmp_path: Path) -> None:
    """An hour until the next update, and an hour in which a batch was interrupted: each of five batches took 10 s."""
    for number, begun, committed in BATCHES:
        for folder, at in (("offsets", begun), ("commits", committed)):
            path = tmp_path / folder / str(number)
            path.parent.mkdir(exist_ok=True)
            path.write_text("v1", encoding="utf-8")
            os.utime(path, (at, at))
    commits = [(number, float(committed)) for number, _, committed in BATCHES]
    assert seconds_of_work(LocalStorage(str(tmp_path)), str(tmp_path), commits) == 50.0
