"""The resolved graph as a file in the storage, for readers without Spark: a server, a page, `graph --stored`.

The file has what views and diagrams show, and the reads of flows, from which their lag is computed. It is derived:
each `validate` and each update replaces it if it has changed, and it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from framework.declare.specs import (
    AutoCdcSpec,
    ColumnSelection,
    DatasetKind,
    DatasetSpec,
    ExpectationSpec,
    FlowSpec,
    ViolationAction,
)
from framework.foundation.errors import RemoteError, SluiceError, UserError, UserErrors
from framework.foundation.files.storage_port import Storage, present_path
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.foundation.secrets.known_secrets import hide_known_values
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.graph.queries.analysis_content import read_of, source_of

_FORMAT = StoredFormat(1)
_FOLDER = "graphs"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGraph:
    """A graph that was read from a storage.

    Args:
        graph: the graph without the parts that `shown` removes; it can't be used to plan an update.
        folders: the folders of its tables; tables that the storage may not own after a move or copy are left out.
    """

    graph: DataflowGraph
    folders: Mapping[QualifiedName, str]


class GraphStore:
    """Reads and replaces the stored graph of one pipeline.

    Args:
        storage: the pipeline's storage.
        pipeline: the pipeline's name; several pipelines may share a storage.
    """

    def __init__(self, storage: Storage, pipeline: str) -> None:
        self._storage = storage
        digest = hashlib.sha256(pipeline.encode()).hexdigest()[:16]  # a name may have any characters
        self.path = storage.path(_FOLDER, f"{digest}.json")

    def read(self) -> StoredGraph | None:
        """Return the graph that the last `validate` or update has written; None if there is none.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
        """
        return _FORMAT.read(self._storage, self.path, partial(_stored, self._storage))

    def write(self, graph: DataflowGraph, folders: Mapping[QualifiedName, str]) -> None:
        """Replace the graph atomically; write nothing if the file is up to date.

        After a crash before the write, the file has the graph of an earlier resolution; the next resolution replaces
        it.

        Args:
            graph: the graph.
            folders: the folders of its tables.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        content = {"root": self._storage.root, **_content(graph, folders)}
        text = _FORMAT.text(hide_known_values(content)) + "\n"
        if self._storage.read_text(self.path) != text:
            self._storage.write_text(self.path, text)


def shown(graph: DataflowGraph) -> DataflowGraph:
    """Return a graph reduced to its stored parts: what views show, and the reads of its flows."""
    return replace(
        graph,
        datasets=tuple(map(_shown_dataset, graph.datasets)),
        flows=tuple(map(_shown_flow, graph.flows)),
        analyses={},
        warnings=(),
        lacking={},
    )


def _shown_dataset(dataset: GraphDataset) -> GraphDataset:
    spec = dataset.spec
    return GraphDataset(
        spec=DatasetSpec(
            name=spec.name,
            kind=spec.kind,
            location=spec.location,
            comment=spec.comment,
            private=spec.private,
            keys=spec.keys,
            expectations=spec.expectations,
        ),
        kind=dataset.kind,
        schema=dataset.schema,
        fault=dataset.fault,
        waits_for=dataset.waits_for,
    )


def _shown_flow(flow: GraphFlow) -> GraphFlow:
    return GraphFlow(
        spec=replace(flow.spec, spark_conf=()),
        reads=tuple(replace(read, options=()) for read in flow.reads),
        streaming=flow.streaming,
        sources=flow.sources,
    )


def _content(graph: DataflowGraph, folders: Mapping[QualifiedName, str]) -> dict[str, Any]:
    return {
        "pipeline": graph.pipeline,
        "is_partial": graph.is_partial,
        "datasets": [_dataset_json(each, folders.get(each.name)) for each in map(_shown_dataset, graph.datasets)],
        "flows": [_flow_json(each) for each in map(_shown_flow, graph.flows)],
    }


def _dataset_json(dataset: GraphDataset, folder: str | None) -> dict[str, Any]:
    spec = dataset.spec
    return {
        "name": _plain(spec.name),
        "declared_kind": spec.kind,
        "kind": dataset.kind,
        "location": _plain(spec.location),
        "comment": spec.comment,
        "private": spec.private,
        "keys": spec.keys,
        "expectations": _plain(spec.expectations),
        "schema": dataset.schema,
        "folder": folder,
        "fault": None if dataset.fault is None else _fault_json(dataset.fault),
        "waits_for": _plain(dataset.waits_for),
    }


def _flow_json(flow: GraphFlow) -> dict[str, Any]:
    return {
        **_values(flow.spec),
        "reads": _plain(flow.reads),
        "streaming": flow.streaming,
        "sources": _plain(flow.sources),
    }


def _fault_json(fault: SluiceError) -> dict[str, Any]:
    """Return a fault as JSON with its text, to be shown by another process; a group of errors has all texts."""
    text = {"what": fault.what, "remedy": fault.remedy, "location": _plain(fault.location)}
    if isinstance(fault, UserErrors):
        text = {"what": fault.render().removeprefix(f"[{fault.condition}] "), "remedy": "", "location": None}
    is_users = isinstance(fault, UserError) or (isinstance(fault, RemoteError) and fault.is_users)
    return {"condition": fault.condition, "is_users": is_users, **text}


def _plain(value: Any) -> Any:
    """Return a frozen value as JSON; `asdict` copies each leaf, which takes four times as long."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return _values(value) if hasattr(value, "__dataclass_fields__") else value


def _values(value: Any) -> dict[str, Any]:
    return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}


def _stored(storage: Storage, content: dict[str, Any]) -> StoredGraph:
    datasets, root = tuple(map(_dataset, content["datasets"])), content["root"]
    stored = zip(datasets, (each["folder"] for each in content["datasets"]), strict=True)
    folders = ((each, present_path(storage, folder, root)) for each, folder in stored if folder is not None)
    graph = DataflowGraph(
        pipeline=content["pipeline"],
        datasets=datasets,
        flows=tuple(map(_flow, content["flows"])),
        is_partial=content["is_partial"],
    )
    return StoredGraph(graph=graph, folders={each.name: folder for each, folder in folders if folder is not None})


def _dataset(value: Mapping[str, Any]) -> GraphDataset:
    spec = DatasetSpec(
        name=QualifiedName(**value["name"]),
        kind=DatasetKind(value["declared_kind"]),
        location=_location(value["location"]),
        comment=value["comment"],
        private=value["private"],
        keys=tuple(value["keys"]),
        expectations=tuple(map(_expectation, value["expectations"])),
    )
    fault = value["fault"]
    return GraphDataset(
        spec=spec,
        kind=DatasetKind(value["kind"]),
        schema=value["schema"],
        fault=None if fault is None else RemoteError(**{**fault, "location": _location(fault["location"])}),
        waits_for=tuple(QualifiedName(**name) for name in value["waits_for"]),
    )


def _expectation(value: Mapping[str, Any]) -> ExpectationSpec:
    unique = value["unique"]
    changed = {
        "action": ViolationAction(value["action"]),
        "unique": None if unique is None else tuple(unique),
        "location": _location(value["location"]),
    }
    return ExpectationSpec(**{**value, **changed})


def _flow(value: Mapping[str, Any]) -> GraphFlow:
    graphs = ("reads", "streaming", "sources")
    cdc = value["cdc"]
    changed = {
        "name": QualifiedName(**value["name"]),
        "target": QualifiedName(**value["target"]),
        "location": _location(value["location"]),
        "spark_conf": (),
        "cdc": None if cdc is None else _cdc(cdc),
    }
    return GraphFlow(
        spec=FlowSpec(**{**{key: each for key, each in value.items() if key not in graphs}, **changed}),
        reads=tuple(map(read_of, value["reads"])),
        streaming=value["streaming"],
        sources=tuple(map(source_of, value["sources"])),
    )


def _cdc(value: Mapping[str, Any]) -> AutoCdcSpec:
    selections = {each: _selection(value[each]) for each in ("columns", "ignore_null_updates", "track_history")}
    return AutoCdcSpec(**{**value, **selections, "keys": tuple(value["keys"])})


def _selection(value: Mapping[str, Any] | None) -> ColumnSelection | None:
    if value is None:
        return None
    columns = value["columns"]
    return ColumnSelection(columns=None if columns is None else tuple(columns), excluded=value["excluded"])


def _location(value: Mapping[str, Any] | None) -> SourceLocation | None:
    return None if value is None else SourceLocation(**value)
