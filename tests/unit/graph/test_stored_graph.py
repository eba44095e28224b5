"""The stored graph: it comes back as it was, and a file that can't be used is a named error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from framework.declare.specs import (
    AutoCdcSpec,
    ColumnSelection,
    DatasetKind,
    DatasetSpec,
    ExpectationSpec,
    FlowSpec,
    ViolationAction,
)
from framework.foundation.errors import GraphErrors, OperationError, SluiceError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.foundation.secrets.known_secrets import remember_secrets
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.graph.stored_graph import GraphStore, shown
from framework.sources.port import ColumnType, ColumnValues, SourceReference, SourceShape
from framework.views.graph import graph_json
from framework.views.stored_graph import stored_graph
from tests.support.stored_graphs import without_faults

HERE = SourceLocation(file="m.py", line=4, column=2)
ONLY = (ColumnValues(column="day", type=ColumnType.DATE, values=("2026-01-01", None)),)


def name(table: str) -> QualifiedName:
    """A name of `main.s`."""
    return QualifiedName(catalog="main", schema="s", table=table)


def dataset(table: str, fault: SluiceError | None = None, **more: object) -> GraphDataset:
    """A streaming table with an expectation of each kind."""
    expectations = (
        ExpectationSpec(name="a", condition="n > 0", action=ViolationAction.DROP, location=HERE),
        ExpectationSpec(name="b", condition="UNIQUE (n)", action=ViolationAction.FAIL, unique=("n",)),
    )
    spec = DatasetSpec(
        name=name(table), kind=DatasetKind.TABLE, location=HERE, comment="é \u2028 x", keys=("n PRIMARY KEY",),
        expectations=expectations, private=True,
    )  # fmt: skip
    fields = [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    return replace(GraphDataset(spec=spec, kind=DatasetKind.STREAMING_TABLE, schema=schema, fault=fault), **more)  # type: ignore[arg-type]


FAULTS = (
    OperationError("STORAGE_NOT_WRITABLE", location=HERE, path="/x", problem="no"),
    GraphErrors([UserError("INVALID_NAME", location=HERE, name="a b"), UserError("INVALID_NAME", name="c d")]),
)
GRAPH = DataflowGraph(
    pipeline="shop/é",
    datasets=(
        dataset("orders"),
        *(dataset(f"faulty_{number}", fault) for number, fault in enumerate(FAULTS)),
        dataset("waiting", waits_for=(name("faulty_0"),), schema=None),
    ),
    flows=(
        GraphFlow(
            spec=FlowSpec(
                name=name("changes"), target=name("orders"), location=HERE, once=True, source="raw", comment="c",
                cdc=AutoCdcSpec(
                    keys=("n",), sequence_by="at", scd_type=2, ignore_null_updates=ColumnSelection(columns=("x",)),
                    track_history=ColumnSelection(columns=("y",), excluded=True), soft_deletes="gone",
                ),
            ),
            reads=(
                Read(text="raw", streaming=True, dataset=name("raw")),
                Read(text="delta.`/x`", streaming=False, path="/x", only=ONLY, begins="startingVersion=3"),
            ),
            streaming=True,
            sources=(
                SourceReference(
                    kind="cloud_files", shape=SourceShape.FOLDER, location="/landing", details='{"a": 1}', only=ONLY,
                    from_start=True, begins="modifiedAfter=1", selects="pathGlobFilter=*.csv",
                ),
            ),
        ),
    ),
    is_partial=True,
)  # fmt: skip
FOLDERS = {name("orders"): "/data/orders"}


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """An empty storage."""
    return LocalStorage(str(tmp_path))


def test_a_graph_comes_back_as_it_was(storage: LocalStorage) -> None:
    """Datasets, flows, reads, sources, places, faults and the folders of tables are those of the graph."""
    GraphStore(storage, GRAPH.pipeline).write(GRAPH, FOLDERS)

    found = GraphStore(storage, GRAPH.pipeline).read()
    assert found is not None
    assert without_faults(found.graph) == without_faults(GRAPH) == without_faults(shown(GRAPH))
    assert [each.render() for each in found.graph.faults] == [each.render() for each in FAULTS]
    assert found.graph.datasets[1].fault is not None
    assert found.graph.datasets[1].fault.location == HERE
    assert graph_json(found.graph) == graph_json(GRAPH)
    assert found.folders == FOLDERS
    assert found.graph.flows[0].sources[0].details == '{"a": 1}'
    assert found.graph.flows[0].sources[0].begins == "modifiedAfter=1"


def test_settings_and_known_secrets_are_not_stored(storage: LocalStorage) -> None:
    """Options and settings of declarations stay out of the file, and a secret in a text is hidden."""
    remember_secrets("hunter2-of-the-graph")
    (first, *_), (flow, *_) = GRAPH.datasets, GRAPH.flows
    spec = replace(
        first.spec, comment="with hunter2-of-the-graph", options=(("kafka.password", "s3cr3t-option"),),
        table_properties=(("p", "s3cr3t-option"),), spark_conf=(("k", "s3cr3t-option"),),
    )  # fmt: skip
    changed = replace(
        flow,
        spec=replace(flow.spec, spark_conf=(("k", "s3cr3t-option"),)),
        reads=(replace(flow.reads[0], options=(("password", "s3cr3t-option"),)),),
    )
    store = GraphStore(storage, GRAPH.pipeline)
    store.write(replace(GRAPH, datasets=(replace(first, spec=spec),), flows=(changed,)), FOLDERS)

    text = Path(store.path).read_text("utf-8")
    assert "hunter2" not in text
    assert "s3cr3t-option" not in text
    assert "with [REDACTED]" in text


def test_an_equal_graph_is_not_written_again(storage: LocalStorage) -> None:
    """The file is replaced when something has changed, and only then."""
    store = GraphStore(storage, GRAPH.pipeline)
    store.write(GRAPH, FOLDERS)
    before = Path(store.path).stat()
    store.write(GRAPH, FOLDERS)
    assert Path(store.path).stat() == before

    store.write(replace(GRAPH, is_partial=False), FOLDERS)
    found = store.read()
    assert found is not None
    assert found.graph.is_partial is False


def test_pipelines_of_one_storage_have_graphs_of_their_own(storage: LocalStorage) -> None:
    """A pipeline does not replace the graph of another one."""
    for pipeline in ("a", "b"):
        GraphStore(storage, pipeline).write(replace(GRAPH, pipeline=pipeline), {})
    assert [stored_graph(storage, each).pipeline for each in ("a", "b")] == ["a", "b"]


def test_a_graph_that_can_not_be_used_is_a_named_error(storage: LocalStorage) -> None:
    """A missing file, one of another format and a damaged one say what they are; the next update replaces them."""
    with pytest.raises(UserError) as missing:
        stored_graph(storage, "shop")
    assert missing.value.condition == "GRAPH_NOT_STORED"
    store = GraphStore(storage, "shop")
    for text, condition in (('{"format": 2}', "STORED_FORMAT_UNKNOWN"), ("{", "STORED_FILE_DAMAGED")):
        storage.write_text(store.path, text)
        with pytest.raises(OperationError) as fault:
            stored_graph(storage, "shop")
        assert fault.value.condition == condition
        store.write(replace(GRAPH, pipeline="shop"), {})
        assert stored_graph(storage, "shop").pipeline == "shop"
