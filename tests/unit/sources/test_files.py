"""Folders of files that Spark's own source reads, as a kind of source."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.files.storage import LocalStorage
from framework.sources.delta.source import DeltaSource
from framework.sources.files.source import FileSource
from framework.sources.port import UNKNOWN_LAG, SourcePosition, SourceReference, SourceShape


@pytest.mark.parametrize("location", ["dbfs:/mnt/in", "/Volumes/main/raw/in"])
def test_nothing_is_known_of_a_folder_that_the_storage_does_not_see(tmp_path: Path, location: str) -> None:
    """Spark has it elsewhere, such as a folder of `paths`: its flow runs, and is never idle by an empty listing."""
    storage, source = LocalStorage(str(tmp_path)), FileSource()
    reference = SourceReference(kind="files", shape=SourceShape.FOLDER, location=location)
    position = SourcePosition(
        storage=storage, checkpoint=str(tmp_path), sources=(reference,), source_count=1, offsets=('{"logOffset":0}',)
    )
    assert (source.is_drained(position), source.lag(position, now=0.0)) == (None, UNKNOWN_LAG)
    assert source.change_token(storage, reference, None) is None
    assert source.identity(storage, reference) is None
    table = SourceReference(kind="delta", shape=SourceShape.TABLE, location=location)
    assert (DeltaSource().change_token(storage, table, None), DeltaSource().identity(storage, table)) == (None, None)
