"""An analysis is kept for a dataset with generated queries, and used only while nothing changed that it depends on."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from framework.cdc.model.target_plan import TargetPlan
from framework.checkpoints.operators import StatefulOperator
from framework.declare.registry import GeneratedQuery
from framework.declare.specs import AutoCdcSpec, DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow, Read
from framework.graph.kept_analyses import analyses_text, read_analyses
from framework.graph.queries import known_analyses
from framework.graph.queries.known_analyses import KnownAnalyses
from framework.sources.port import ColumnType, ColumnValues, SourceReference, SourceShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def name(table: str) -> QualifiedName:
    """Return a name of the schema `main.s`."""
    return QualifiedName(catalog="main", schema="s", table=table)


KIND = DatasetKind.STREAMING_TABLE
SPEC = DatasetSpec(name=name("orders"), kind=KIND, location=SourceLocation(file="a.py", line=3))
FLOWS = tuple(
    FlowSpec(name=name(f"orders_{part}"), target=SPEC.name, cdc=AutoCdcSpec(keys=("id",), sequence_by="position"))
    for part in ("snapshot_flow", "cdc_flow")
)
CHANGES = GraphDataset(spec=DatasetSpec(name=name("changes"), kind=KIND), kind=KIND, schema="c")
GENERATED = {
    FLOWS[0].name: GeneratedQuery(text="rows of orders"),
    FLOWS[1].name: GeneratedQuery(text="changes of orders", reads=(CHANGES.name,)),
}
SETTINGS = "{spark.app.id=1, spark.sql.ansi.enabled=true, spark.sql.warehouse.dir=/tmp/1, spark.x=a, b, bench.y=2}"


def analyses(generated: dict[QualifiedName, GeneratedQuery], settings: str = SETTINGS) -> KnownAnalyses:
    """Return analyses in a session with these settings, as Java prints them."""
    conf = SimpleNamespace(getAllAsJava=lambda: SimpleNamespace(toString=lambda: settings))
    spark = SimpleNamespace(_jsparkSession=SimpleNamespace(conf=lambda: conf))
    return KnownAnalyses.of(cast("SparkSession", spark), generated, {})


def key(
    spec: DatasetSpec = SPEC,
    flows: tuple[FlowSpec, ...] = FLOWS,
    generated: dict[QualifiedName, GeneratedQuery] | None = None,
    changes: GraphDataset | None = CHANGES,
    settings: str = SETTINGS,
) -> str | None:
    """Return the key of the orders, whose change flow reads the changes."""
    return analyses(GENERATED if generated is None else generated, settings).key(spec, flows, lambda _: changes)


def test_the_key_changes_with_everything_that_an_analysis_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declarations, queries, inputs, settings, Spark and our own code; not a line, a folder, or the stored table."""
    other_query = {**GENERATED, FLOWS[1].name: GeneratedQuery(text="other", reads=(CHANGES.name,))}
    partitioned = replace(CHANGES, spec=replace(CHANGES.spec, partition_columns=("source_table",)))
    keys = [
        key(),
        key(spec=replace(SPEC, table_properties=(("delta.columnMapping.mode", "name"),))),
        key(flows=(FLOWS[0], replace(FLOWS[1], cdc=AutoCdcSpec(keys=("id", "b"), sequence_by="position")))),
        key(flows=(FLOWS[1], FLOWS[0])),
        key(generated=other_query),
        key(changes=replace(CHANGES, schema="d")),
        key(changes=partitioned),
        key(settings=SETTINGS.replace("true", "false")),
        key(settings=SETTINGS.replace("{", "{spark.databricks.delta.x=1, ")),
    ]
    with monkeypatch.context() as changed:
        changed.setattr(known_analyses, "spark_version", "5.0.0")
        keys.append(key())
    with monkeypatch.context() as changed:
        changed.setattr(known_analyses, "_code_version", lambda: "another release")
        keys.append(key())
    assert None not in keys
    assert len(set(keys)) == len(keys)
    moved = replace(SPEC, location=SourceLocation(file="b.py", line=9))
    other_process = SETTINGS.replace("app.id=1", "app.id=2").replace("/tmp/1", "/tmp/2")  # noqa: S108 - a text
    assert {key(spec=moved, flows=tuple(replace(flow, location=moved.location) for flow in FLOWS)),
            key(settings=other_process)} == {key()}  # fmt: skip


def test_only_datasets_whose_queries_are_all_generated_are_kept() -> None:
    """A query of a user, no query, or an input with a fault: the dataset is analysed in each update."""
    fault = replace(CHANGES, fault=UserError("INGESTION_WITHOUT_KEY", table="t", statement="s"))
    user = FlowSpec(name=name("by_hand"), target=SPEC.name)
    waits = replace(CHANGES, waits_for=(SPEC.name,))
    answers = [key(flows=(*FLOWS, user)), key(flows=()), key(changes=fault), key(changes=waits), key(changes=None)]
    assert answers == [None] * 5


TABLE = '{"type":"struct","fields":[]}'
ANALYSED = GraphDataset(
    spec=SPEC,
    kind=KIND,
    schema="visible",
    table_schema=TABLE,
    cdc=TargetPlan(
        name=SPEC.name, keys=("id",), scd_type=2, table_json=TABLE, literal_flows=(FLOWS[0].name,), split=("a",),
        tracked=("b", "c"), text_partitions=("d",),
    ),
)  # fmt: skip
ONLY = (ColumnValues(column="n", type=ColumnType.INTEGER, values=("1", None)),)
GRAPH_FLOWS = (
    GraphFlow(
        spec=FLOWS[0], streaming=True, schema="s", source_count=1,
        operators=(StatefulOperator(number=0, name="dedupe"),),
        sources=(SourceReference(kind="files", shape=SourceShape.FOLDER, location="/x", details="d", only=ONLY),),
        batch_paths=("/a", "/b"), fingerprint="f",
    ),
    GraphFlow(
        spec=FLOWS[1],
        reads=(
            Read(text="changes", streaming=True, dataset=CHANGES.name, options=(("a", "1"),), only=ONLY),
            Read(text="/p", streaming=True, path="/p"),
        ),
    ),
)  # fmt: skip


def test_what_is_kept_is_recalled_as_it_was() -> None:
    """Each field of dataset and flows survives the file; the declarations are the present ones."""
    known, found = analyses(GENERATED), key()
    known.keep(found, None, ANALYSED, GRAPH_FLOWS)
    (kept,) = known.used.values()
    assert set(kept.content) == {field.name for field in fields(GraphDataset)} - {"spec", "fault", "waits_for"} | {
        "flows"
    }
    assert set(kept.content["flows"][0]) == {field.name for field in fields(GraphFlow)} - {"spec"}
    again = replace(known, kept=read_analyses(analyses_text(known.used)), used={})
    moved = replace(SPEC, location=SourceLocation(file="b.py", line=9))
    assert again.recall(found, None, moved, FLOWS) == (replace(ANALYSED, spec=moved), GRAPH_FLOWS)
    assert analyses_text(again.used) == analyses_text(known.used)


def test_an_analysis_holds_for_the_table_that_it_had_and_that_it_made() -> None:
    """A table that changed in any other way, another key, or no key at all: the dataset is analysed."""
    known, found = analyses(GENERATED), key()
    known.keep(found, "before", ANALYSED, GRAPH_FLOWS)
    again = replace(known, kept=dict(known.used), used={})

    def recalled(key: str | None, stored: str | None) -> bool:
        return again.recall(key, stored, SPEC, FLOWS) is not None

    cases: list[tuple[str | None, str | None]] = [(found, "before"), (found, TABLE), (found, None), (found, "other")]
    cases += [("other key", TABLE), (None, TABLE)]
    assert [recalled(*case) for case in cases] == [True, True, False, False, False, False]


@pytest.mark.parametrize("text", [None, "", "{", "[1]", '[{"dataset": {}}]', '{"a": 1}'])
def test_a_file_that_is_missing_or_damaged_has_no_analyses(text: str | None) -> None:
    """All datasets are analysed then."""
    found: dict[Any, Any] = read_analyses(text)
    assert found == {}


def test_each_room_whose_code_decides_an_analysis_is_a_part_of_the_version() -> None:
    """Without the files of a room, an analysis of another version of the code would be used."""
    found = {str(path).rpartition("framework/")[2].partition("/")[0] for path in known_analyses.source_files()}

    assert set(known_analyses._ROOMS) == found
