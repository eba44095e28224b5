"""The source position of a batch: the offsets that Spark recorded before the batch ran."""

from __future__ import annotations

import json
from typing import Any

from framework.checkpoints.offsets import read_offsets
from framework.foundation.storage import Storage


def batch_position(storage: Storage, checkpoint: str, number: int) -> str:
    """Return the offsets of each source before and after a batch as JSON, in the order of the query.

    Args:
        storage: has the checkpoint.
        checkpoint: its path.
        number: the batch's number.
    """
    before = read_offsets(storage, checkpoint, number - 1) if number else ()
    after = read_offsets(storage, checkpoint, number)
    return json.dumps({"from": [_offset(each) for each in before], "to": [_offset(each) for each in after]})


def _offset(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
