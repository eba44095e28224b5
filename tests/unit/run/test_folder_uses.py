"""The folder of an undeclared table at a user's path is deleted only if Delta wrote everything in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.storage import Storage
from framework.run.tables.folder_uses import foreign_entry

LOG = "_delta_log/00000000000000000000.json"
PART = "part-00000-0a1b-c000.snappy.parquet"


@pytest.mark.parametrize(
    ("files", "foreign"),
    [
        ([LOG, PART, f".{PART}.crc", "deletion_vector_0a1b.bin", f"_change_data/cdc-{PART}"], None),
        ([LOG, f"day=1/hour=2/{PART}", "day=__HIVE_DEFAULT_PARTITION__/" + PART], None),
        ([LOG, f"a1/{PART}", "Zz/deletion_vector_0a1b.bin"], None),
        ([LOG, PART, "notes.txt"], "notes.txt"),
        ([LOG, PART, "mine.parquet"], "mine.parquet"),
        ([LOG, PART, f"inner/{PART}"], "inner"),
        ([LOG, f"hour=2/{PART}"], "hour=2"),
        ([LOG, "de/customers.csv"], "de"),
        ([LOG, f"de/{LOG}", f"de/{PART}"], "de"),
        ([LOG, "ab"], "ab"),
        ([], None),
    ],
)
def test_a_file_that_delta_did_not_write_is_found(
    storage: Storage, tmp_path: Path, files: list[str], foreign: str | None
) -> None:
    """Data files, deletion vectors, the change feed, partitions and prefix folders are Delta's; all else is foreign."""
    table = tmp_path / "table"
    for file in files:
        (table / file).parent.mkdir(parents=True, exist_ok=True)
        (table / file).touch()
    assert foreign_entry(storage, str(table), ["day", "hour"]) == foreign
