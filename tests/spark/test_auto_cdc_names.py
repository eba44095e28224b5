"""Column names of users never collide with internal names of AUTO CDC, for any kind of target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cdc.analysis.rules import check_flow
from framework.cdc.model.columns import quote
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from tests.support.cdc_world import World, flow

# Names of Spark, of Delta, of ours, and such as need quoting.
NAMES = (
    "content", "order", "operation", "sequence", "once", "authors", "deleted", "started", "ended", "row",
    "rows", "event", "key", "value", "path", "index", "count", "least", "most", "upserts", "recorded_at", "authored",
    "_", "a.b", "_metadata.file_path", "a`b", "a/b", "*", "null", "é", "1", "__START", "file_path", "point", "old",
    "`old`", "`w`",
)  # fmt: skip
KEY = "k.`é"
SPEC = AutoCdcSpec(
    keys=("k",),
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    apply_as_truncates="op = 'T'",
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
FED = {"delta.enableChangeDataFeed": "true"}
KINDS = {
    "scd1": (SPEC, {}),
    "scd1-authored-merged": (replace(SPEC, ignore_null_updates=ColumnSelection()), FED),
    "scd2-merged": (replace(SPEC, scd_type=2, apply_as_truncates=None), FED),
    "scd2-authored": (
        replace(SPEC, scd_type=2, apply_as_truncates=None, ignore_null_updates=ColumnSelection()),
        {},
    ),
}
"""Each type is written in both ways, with whole rows and with authored values; so is each way."""


@pytest.mark.parametrize("kind", KINDS)
def test_any_name_may_be_the_name_of_a_column(interpreting: SparkSession, tmp_path: Path, kind: str) -> None:
    """Rows are inserted, replaced, deleted and inserted late, each value in its own column."""
    spec, properties = KINDS[kind]
    # Delta can't write the change data feed of a table with a backtick in a name.
    names = [name for name in NAMES if not (properties and "`" in name)]
    key_name = KEY.replace("`", "") if properties else KEY
    columns = ", ".join(f"{quote(name)} STRING" for name in (key_name, *names))
    flows = {"changes": (replace(spec, keys=(key_name,)), f"{columns}, op STRING, seq INT", False)}
    world = World(interpreting, tmp_path, flows, properties)

    def event(key: str | None, value: str | None, operation: str, sequence: int) -> tuple[object, ...]:
        values = [value if value is None else f"{value} {name}" for name in names]
        return (key, *values, operation, sequence)

    world.apply(
        "changes",
        [
            *(event(key, "one", "U", 1) for key in ("v", "w", "x", "y")),
            *(event("v", "three", "U", 3), event("w", None, "D", 3)),
        ],
    )
    world.apply(
        "changes",
        [
            *(event("x", "three", "U", 3), event("y", None, "D", 3), event("z", "three", "U", 3)),
            *(event("v", "two", "U", 2), event("w", "two", "U", 2)),
        ],
    )
    intervals: dict[int, list[tuple[object, ...]]] = {
        1: [("x", "three"), ("z", "three"), ("v", "three")],
        2: [
            *(("x", "one", 1, 3), ("x", "three", 3, None), ("y", "one", 1, 3), ("z", "three", 3, None)),
            *(("v", "one", 1, 2), ("v", "two", 2, 3), ("v", "three", 3, None), ("w", "one", 1, 2), ("w", "two", 2, 3)),
        ],
    }
    expected = [
        (key, *(f"{value} {name}" for name in names), *interval) for key, value, *interval in intervals[spec.scd_type]
    ]
    shown = [quote(key_name), *map(quote, names), *(("__START_AT", "__END_AT") if spec.scd_type == 2 else ())]
    assert sorted(expected, key=repr) == world.rows(*shown)


def test_backticks_around_the_name_of_a_field_are_a_part_of_it(interpreting: SparkSession, tmp_path: Path) -> None:
    """Also where a struct is converted to that of the table, which has a wider field, and one without backticks."""
    spec = replace(SPEC, keys=("k",), apply_as_truncates=None)
    flows = {
        "wide": (spec, "k STRING, s STRUCT<```f```: BIGINT, f: STRING, g: INT>, op STRING, seq INT", False),
        "narrow": (spec, "k STRING, s STRUCT<```f```: INT>, op STRING, seq INT", False),
    }
    world = World(interpreting, tmp_path, flows, {})
    world.apply("wide", [("x", (5_000_000_000, "text", 1), "U", 1)])
    world.apply("narrow", [("y", (2,), "U", 2)])
    assert world.rows("k", "s.```f```", "s.f", "s.g") == [("x", 5_000_000_000, "text", 1), ("y", 2, None, None)]


def test_a_table_of_type_1_may_show_the_interval_of_another(interpreting: SparkSession, tmp_path: Path) -> None:
    """`__START_AT` is a column like any other where it is not that of a history; its type may be any."""
    spec = replace(SPEC, keys=("k",), apply_as_truncates=None)
    ddl = "k STRING, __START_AT DATE, op STRING, seq INT"
    world = World(interpreting, tmp_path, {"changes": (spec, ddl, False)})
    stored = interpreting.table(world.table.sql).schema
    assert world.target == world.plan(stored)
    world.flows["changes"] = (spec, ddl.replace("__START_AT DATE, ", ""), False)
    assert ["k", "__START_AT"] == world.plan(stored).visible_schema.fieldNames()


@pytest.mark.parametrize("scd_type", [1, 2])
def test_reserved_names_are_refused_in_any_case(spark: SparkSession, scd_type: int) -> None:
    """Ours begin with one prefix; a history has two more; and one is Spark's."""
    ddl = "k STRING, __SLUICE_place STRING, __start_at INT, __End_At INT, _Metadata STRING, op STRING, seq INT"
    told = check_flow(
        flow(replace(SPEC, keys=("k",), scd_type=scd_type, apply_as_truncates=None), spark.createDataFrame([], ddl))
    )
    found = [(each.condition, each.fields["column"]) for each in told]
    condition = "AUTOCDC_RESERVED_COLUMN_NAME_PREFIX_CONFLICT"
    reserved = ["__SLUICE_place"] if scd_type == 1 else ["__SLUICE_place", "__start_at", "__End_At"]
    expected = [*((condition, column) for column in reserved), ("AUTOCDC_FILE_METADATA_COLUMN", "_Metadata")]
    assert expected == found
