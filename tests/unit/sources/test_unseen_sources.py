"""Sources of a file system that the storage does not list: nothing is known of them, and they may have new rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.files.storage import LocalStorage
from framework.sources.delta.source import table_source
from framework.sources.files.source import FileSource
from framework.sources.kinds import source_identity
from framework.sources.port import UNKNOWN_LAG, SourcePosition, StreamingRelation

SEEN = '{"path":"file:///in/a.json","timestamp":1,"batchId":0}'


@pytest.mark.parametrize("folder", ["dbfs:/Volumes/main/in", "s3a://bucket/in"])
def test_a_folder_that_cannot_be_listed_is_never_drained(tmp_path: Path, folder: str) -> None:
    """A stream that was thought to have read all would not start any more, and new files would wait for ever."""
    storage, kind = LocalStorage(str(tmp_path)), FileSource()
    storage.write_text("checkpoint/sources/0/0", f"v1\n{SEEN}")
    source = kind.recognize(StreamingRelation(format="json", path=folder, options={}))
    assert source is not None
    position = SourcePosition(
        storage=storage, checkpoint="checkpoint", sources=(source,), offsets=('{"logOffset":0}',), source_count=1
    )
    assert kind.is_drained(position) is None
    assert kind.lag(position, now=2) == UNKNOWN_LAG
    assert kind.change_token(storage, source, None) is None
    assert source_identity(storage, source) is None


def test_rows_of_a_table_elsewhere_may_have_changed(tmp_path: Path) -> None:
    """A view of them is computed in each update; a table of the storage's file system is compared."""
    storage = LocalStorage(str(tmp_path))
    assert source_identity(storage, table_source("dbfs:/tables/t")) is None
    assert source_identity(storage, table_source(f"{tmp_path}/t")) is None  # `paths` may have it elsewhere
    (tmp_path / "t").mkdir()
    assert source_identity(storage, table_source(f"{tmp_path}/t")) == f"{tmp_path}/t none"
