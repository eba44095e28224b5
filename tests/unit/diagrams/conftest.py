"""Graphs for the tests of pictures, made without Spark."""

from __future__ import annotations

import json

import pytest

from framework.declare.specs import AutoCdcSpec, DatasetKind, DatasetSpec, ExpectationSpec, FlowSpec, ViolationAction
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.sources.port import SourceReference, SourceShape


def name(table: str) -> QualifiedName:
    """A name of `main.flights`."""
    return QualifiedName(catalog="main", schema="flights", table=table)


def dataset(table: str, kind: DatasetKind, columns: int = 2, *, comment: str | None = None) -> GraphDataset:
    """A dataset with that many columns; a sink has no schema."""
    fields = [{"name": f"c{i}", "type": "string", "nullable": True, "metadata": {}} for i in range(columns)]
    expectation = ExpectationSpec(name="has_id", condition="id IS NOT NULL", action=ViolationAction.DROP)
    spec = DatasetSpec(
        name=name(table),
        kind=kind,
        comment=comment,
        location=SourceLocation(file="transformations/flights.py", line=7),
        expectations=(expectation,) if kind is DatasetKind.STREAMING_TABLE else (),
    )
    return GraphDataset(
        spec=spec, kind=kind, schema=json.dumps({"type": "struct", "fields": fields}) if columns else None
    )


STREAM = SourceReference(kind="opaque", shape=SourceShape.STREAM, location="rate")


def flow(
    flow_name: str, target: str, *reads: Read, once: bool = False, cdc: bool = False, opaque: bool = False
) -> GraphFlow:
    """A flow with these reads; it is streaming if one of them is."""
    spec = FlowSpec(
        name=name(flow_name),
        target=name(target),
        once=once,
        cdc=AutoCdcSpec(keys=("id",), sequence_by="sequence") if cdc else None,
    )
    streaming = opaque or any(read.streaming for read in reads)
    return GraphFlow(spec=spec, reads=reads, streaming=streaming, sources=(STREAM,) if opaque else ())


def inside(table: str, *, streaming: bool = False) -> Read:
    """A read of a dataset of the pipeline."""
    return Read(text=table, streaming=streaming, dataset=name(table))


def outside(text: str, *, streaming: bool = False) -> Read:
    """A read of an external table."""
    return Read(text=text, streaming=streaming)


@pytest.fixture
def flights_graph() -> DataflowGraph:
    """A graph with a dataset of each kind, two AUTO CDC flows into one target, and an external source."""
    return DataflowGraph(
        pipeline="flights",
        datasets=(
            dataset("schedule", DatasetKind.TEMPORARY_VIEW, 9),
            dataset("events", DatasetKind.TEMPORARY_VIEW, 11),
            dataset("flights", DatasetKind.STREAMING_TABLE, 19, comment="One row a flight"),
            dataset("delays", DatasetKind.MATERIALIZED_VIEW, 1),
            dataset("alerts", DatasetKind.SINK, 0),
        ),
        flows=(
            flow("schedule", "schedule", outside("ref.`schedule`")),
            flow("events", "events", opaque=True),
            flow("snapshot", "flights", inside("schedule"), outside("ref.`schedule`"), once=True, cdc=True),
            flow("changes", "flights", inside("events", streaming=True), cdc=True),
            flow("delays", "delays", inside("flights")),
            flow("alerting", "alerts", inside("events", streaming=True), inside("flights")),
        ),
    )


@pytest.fixture
def hostile_graph() -> DataflowGraph:
    """A graph with markup of all output formats in its names and texts."""
    evil = '</title><script>alert("x")</script>&"\\'
    spec = DatasetSpec(name=name(evil), kind=DatasetKind.STREAMING_TABLE, comment=evil)
    return DataflowGraph(
        pipeline=evil,
        datasets=(GraphDataset(spec=spec, kind=DatasetKind.STREAMING_TABLE),),
        flows=(flow(f"flow{evil}", evil, outside(evil, streaming=True)),),
    )
