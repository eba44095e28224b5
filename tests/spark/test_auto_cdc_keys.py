"""Keys of all types: each change finds its row, however Python, Parquet and Delta's statistics represent the key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.cdc.delta.transaction import Transaction
from framework.cdc.model.metrics import CdcMetrics
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.engine.delta.table_version import TableVersion
from tests.support.cdc_world import World
from tests.support.key_types import KEY_TYPES, KEYS_PER_TYPE, key_columns

Event = tuple[int, str, str, int]
"""The number of a key, a value, an operation, a sequence."""

NAMES = tuple(name for name, _, _ in KEY_TYPES)
COLUMNS_BEFORE_KEYS = 33
WIDE = ", ".join(f"CAST(0 AS INT) AS c{number}" for number in range(COLUMNS_BEFORE_KEYS))
ALL = range(KEYS_PER_TYPE)

LISTED, UNLISTED, MERGED = "files are listed", "Delta lists the files", "Delta merges"
WITHOUT_STATISTICS = {"delta.dataSkippingNumIndexedCols": "0"}
OTHER_STATISTICS = {"delta.dataSkippingStatsColumns": "v"}


def events(spark: SparkSession, found: Iterable[Event], *, wide: bool) -> DataFrame:
    """Events as rows of a source; a wide one has its keys after the columns with statistics."""
    rows = [
        f"SELECT {WIDE + ', ' if wide else ''}{key_columns(number)}, '{value}' AS v, '{operation}' AS op, {seq}L AS seq"
        for number, value, operation, seq in found
    ]
    return spark.sql(" UNION ALL ".join(rows))


class KeyWorld(World):
    """A target whose key has a column of each type."""

    def __init__(
        self, spark: SparkSession, root: Path, scd_type: int, properties: dict[str, str], *, wide: bool
    ) -> None:
        self.wide = wide
        spec = AutoCdcSpec(
            keys=NAMES,
            sequence_by="seq",
            apply_as_deletes="op = 'delete'",
            columns=ColumnSelection(columns=("op", "seq"), excluded=True),
            scd_type=scd_type,
        )
        source = events(spark, [(0, "v", "upsert", 0)], wide=wide)
        fields = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in source.schema.fields)
        super().__init__(spark, root, {"changes": (spec, fields, False)}, properties)

    def take(self, found: Sequence[Event], batch_id: int) -> CdcMetrics:
        """Apply a batch."""
        return self.writer("changes").apply(events(self.spark, found, wide=self.wide), batch_id)

    def shown(self) -> list[tuple[object, ...]]:
        """Return the number of each row's key and its displayed values; None for a key that was never inserted."""
        shown = ["v", "__START_AT", "__END_AT"] if "__START_AT" in self.target.visible_schema.names else ["v"]
        keys = " UNION ALL ".join(f"SELECT {number} AS number, {key_columns(number)}" for number in ALL)
        same = " AND ".join(f"keys.{name} <=> rows.{name}" for name in NAMES)
        self.spark.table(self.table.sql).createOrReplaceTempView("rows")
        found = self.spark.sql(
            f"SELECT number, {', '.join(shown)} FROM rows LEFT JOIN ({keys}) keys ON {same}"
        ).collect()
        return sorted((tuple(row) for row in found), key=repr)


def late(number: int) -> Event:
    """An event between the first and the second of a key."""
    return (number, "late", "upsert", 15)


DELETED = (0, 1, 3)


def play(world: KeyWorld, *, by_bounds: bool) -> None:
    """Insert all keys; update them and delete some; then late events and redelivered ones, and their batch again.

    Args:
        world: has the target.
        by_bounds: update one or two keys in a batch, so that each is a bound of its batch; and repeat the last batch.
    """
    world.take([(number, "first", "upsert", 10) for number in ALL], 0)
    second = [(number, "second", "upsert", 20) for number in ALL]
    deletes = {number: (number, "", "delete", 30) for number in DELETED}
    for number, keys in enumerate([ALL[:2], ALL[2:4], ALL[4:]] if by_bounds else [ALL], start=1):
        changes = [second[key] for key in keys]
        world.take([*changes, *(deletes[key] for key in keys if key in deletes)], number)
    last = [*(late(number) for number in ALL), *reversed(second)]
    assert not world.take(last, 10).skipped
    if by_bounds:
        assert world.take(last, 10).skipped


CURRENT = [(2, "second"), (4, "second")]
HISTORY = sorted(
    row
    for number in ALL
    for row in [
        (number, "first", 10, 15),
        (number, "late", 15, 20),
        (number, "second", 20, 30 if number in DELETED else None),
    ]
)


WAYS: tuple[tuple[int, str, dict[str, str], bool], ...] = (
    (1, LISTED, {}, True),
    (1, UNLISTED, {}, False),
    (2, LISTED, OTHER_STATISTICS, False),
    (2, MERGED, WITHOUT_STATISTICS, False),
)
"""The SCD type, how files are found, properties of the table, and whether keys are beyond the 32nd column."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}, {way[1]}")
def test_a_change_finds_the_row_of_its_key_whatever_the_type(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, way: tuple[int, str, dict[str, str], bool]
) -> None:
    """Bytes that are no text, days that have no name in Python, NaN, -0.0: one row a key, in one history.

    Also where a table has no statistics of its keys, where it has too many files to list, and where an untested
    version of Delta has to merge.
    """
    scd_type, finding, properties, wide = way
    if finding == UNLISTED:
        swap.setattr(TableVersion, "listed_files", lambda _: None)
        swap.setattr(TableVersion, "listed_batches", lambda _: None)
    if finding == MERGED:
        # The transaction uses Delta's internals, so it runs with tested versions only.
        swap.setattr("framework.engine.delta.table_version._TESTED", frozenset({"0.0.0"}))
        swap.setattr(Transaction, "commit", lambda *_: pytest.fail("a transaction of ours"))
    world = KeyWorld(interpreting, tmp_path, scd_type, properties, wide=wide)
    play(world, by_bounds=finding == UNLISTED)
    assert (CURRENT if scd_type == 1 else HISTORY) == world.shown()


def test_a_truncate_may_have_a_sequence_that_is_no_value_of_python(interpreting: SparkSession, tmp_path: Path) -> None:
    """Rows older than the date and bytes of the truncate are removed, in any order of arrival."""
    spec = AutoCdcSpec(
        keys=("id",), sequence_by="struct(day, text)", apply_as_truncates="op = 'truncate'",
        columns=ColumnSelection(columns=("id",)),
    )  # fmt: skip
    world = World(interpreting, tmp_path, {"changes": (spec, "id int, op string, day date, text string", False)})

    def take(batch_id: int, *rows: tuple[str, str, str]) -> None:
        parts = (
            f"SELECT CAST({key} AS INT) AS id, IF({key} IS NULL, 'truncate', '') AS op, DATE'{day}' AS day, "
            f"CAST(X'{text}' AS STRING) AS text"
            for key, day, text in rows
        )
        world.writer("changes").apply(interpreting.sql(" UNION ALL ".join(parts)), batch_id)

    take(0, ("1", "-0044-03-15", "61"), ("2", "+10000-01-01", "FE"), ("3", "+10000-01-01", "E9"))
    take(1, ("NULL", "+10000-01-01", "FD"), ("4", "+10000-01-01", "FC"), ("5", "+10000-01-02", "00"))
    take(2, ("6", "+10000-01-01", "EFBFBD"), ("7", "+10000-01-01", "FF"))
    assert [(2,), (5,), (7,)] == world.rows()
