"""The analysis of a dataset and its flows as JSON, without their declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from framework.cdc.model.target_plan import TargetPlan
from framework.checkpoints.operators import StatefulOperator
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow, Read
from framework.sources.port import ColumnType, ColumnValues, SourceReference, SourceShape


def analysis_content(dataset: GraphDataset, flows: Sequence[GraphFlow]) -> dict[str, Any]:
    """Return the analysis of a dataset without a fault, and of its flows, as JSON values."""
    return {
        "kind": dataset.kind.value,
        "schema": dataset.schema,
        "table_schema": dataset.table_schema,
        "cdc": None if dataset.cdc is None else asdict(dataset.cdc),
        "widens": dataset.widens,
        "flows": [_flow_json(flow) for flow in flows],
    }


def dataset_of(content: Mapping[str, Any], spec: DatasetSpec) -> GraphDataset:
    """Return the dataset with its present declaration, whose source location may have changed."""
    cdc = content["cdc"]
    return GraphDataset(
        spec=spec,
        kind=DatasetKind(content["kind"]),
        schema=content["schema"],
        table_schema=content["table_schema"],
        cdc=None if cdc is None else _target(cdc),
        widens=content["widens"],
    )


def flows_of(content: Mapping[str, Any], specs: Sequence[FlowSpec]) -> tuple[GraphFlow, ...]:
    """Return the flows into the dataset with their present declarations."""
    return tuple(_flow(spec, value) for spec, value in zip(specs, content["flows"], strict=True))


def _flow_json(flow: GraphFlow) -> dict[str, Any]:
    return {
        "reads": [asdict(read) for read in flow.reads],
        "streaming": flow.streaming,
        "fingerprint": flow.fingerprint,
        "schema": flow.schema,
        "sources": [asdict(source) for source in flow.sources],
        "batch_paths": flow.batch_paths,
        "operators": None if flow.operators is None else [asdict(each) for each in flow.operators],
        "source_count": flow.source_count,
        "source_names": flow.source_names,
    }


def _flow(spec: FlowSpec, value: Mapping[str, Any]) -> GraphFlow:
    operators = value["operators"]
    return GraphFlow(
        spec=spec,
        reads=tuple(map(read_of, value["reads"])),
        streaming=value["streaming"],
        fingerprint=value["fingerprint"],
        schema=value["schema"],
        sources=tuple(map(source_of, value["sources"])),
        batch_paths=tuple(value["batch_paths"]),
        operators=None if operators is None else tuple(StatefulOperator(**each) for each in operators),
        source_count=value["source_count"],
        source_names=tuple(value["source_names"]),
    )


def read_of(value: Mapping[str, Any]) -> Read:
    """Return a read from its JSON."""
    name = value["dataset"]
    changed = {
        "dataset": None if name is None else QualifiedName(**name),
        "options": tuple((key, text) for key, text in value["options"]),
        "only": tuple(map(_condition, value["only"])),
    }
    return Read(**{**value, **changed})


def source_of(value: Mapping[str, Any]) -> SourceReference:
    """Return a source from its JSON."""
    changed = {"shape": SourceShape(value["shape"]), "only": tuple(map(_condition, value["only"]))}
    return SourceReference(**{**value, **changed})


def _condition(value: Mapping[str, Any]) -> ColumnValues:
    return ColumnValues(column=value["column"], type=ColumnType(value["type"]), values=tuple(value["values"]))


def _target(value: Mapping[str, Any]) -> TargetPlan:
    changed = {
        "name": QualifiedName(**value["name"]),
        "literal_flows": tuple(QualifiedName(**name) for name in value["literal_flows"]),
        **{each: tuple(value[each]) for each in ("keys", "split", "tracked", "text_partitions")},
    }
    return TargetPlan(**{**value, **changed})
