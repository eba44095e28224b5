"""Recorded answers of a server, without Spark: pipelines that are healthy, empty, broken, big, or hostile."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from framework.diagrams.layout import lay_out
from framework.diagrams.picture import Edge, Node, NodeKind, Picture

Json = dict[str, Any]
NOW = datetime.now(UTC).replace(microsecond=0)
_KINDS = {
    "streaming_table": NodeKind.STREAMING_TABLE,
    "materialized_view": NodeKind.MATERIALIZED_VIEW,
    "temporary_view": NodeKind.TEMPORARY_VIEW,
    "sink": NodeKind.SINK,
    "external": NodeKind.EXTERNAL,
}


def ago(**parts: float) -> str:
    """The time before now by this long, as the server writes it."""
    return (NOW - timedelta(**parts)).isoformat().replace("+00:00", "Z")


def uid(*parts: object) -> str:
    """The same id for the same parts."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, " ".join(map(str, parts))))


_DRY = ("dry_run", "reason")
_FIELDS: dict[str, tuple[str, ...]] = {
    "validate": (),
    "plan": ("refresh_selection", "full_refresh_selection", "reset_checkpoint_selection", "full_refresh"),
    "doctor": (),
    "lag": (),
    "checkpoints": (),
    "checkpoints-reset": ("flow", "start", *_DRY),
    "checkpoints-rollback": ("flow", "generation", *_DRY),
    "rows": ("dataset", "limit", "version"),
    "quarantine": (),
    "quarantine-rows": ("flow", "limit"),
    "quarantine-replay": ("flow", *_DRY),
    "quarantine-drop": ("flow", *_DRY),
    "rewind": ("to", "datasets", *_DRY),
    "ingest-status": (),
    "ingest-preflight": (),
    **{f"ingest-{verb}": ("gateway", "table") for verb in ("pause", "resume", "cancel", "skip-snapshot", "resync")},
}
FEATURES = (
    "schedules", "alerts", "tokens", "lag", "chunks", "doctor.ways",
    *(f"jobs.{kind}" for kind in _FIELDS),
    *(f"jobs.{kind}.{name}" for kind, names in _FIELDS.items() for name in names),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a server knows: the answers by pipeline and path, and the events of each log."""

    rows: list[Json] = field(default_factory=list)
    faults: list[Json] = field(default_factory=list)
    graphs: dict[str, Json] = field(default_factory=dict)
    updates: dict[str, list[Json]] = field(default_factory=dict)
    events: dict[str, list[Json]] = field(default_factory=dict)
    lags: dict[str, list[Json]] = field(default_factory=dict)
    doctors: dict[str, Json] = field(default_factory=dict)
    datasets: dict[str, Json] = field(default_factory=dict)
    jobs: dict[tuple[str, str], Any] = field(default_factory=dict)
    chunks: dict[str, Json] = field(default_factory=dict)
    schedules: list[Json] = field(default_factory=list)
    alerts: list[Json] = field(default_factory=list)
    tokens: list[Json] = field(default_factory=list)
    role: str = "manage"
    features: tuple[str, ...] = FEATURES


def dataset(name: str, kind: str = "streaming_table", comment: str = "", **more: Any) -> Json:
    """A dataset of `views.graph.graph_json`."""
    fields = [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "city", "type": "string", "nullable": True, "metadata": {"comment": "where it was ordered"}},
        {"name": "amount", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
        {"name": "ordered_at", "type": "timestamp", "nullable": True, "metadata": {}},
        {
            "name": "lines",
            "type": {"type": "array", "elementType": "string", "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ]
    return {
        "name": name,
        "kind": kind,
        "private": False,
        "comment": comment or None,
        "keys": ["id"],
        "schema": None if kind == "sink" else {"type": "struct", "fields": fields},
        "expectations": [{"name": "positive_amount", "condition": "amount > 0", "action": "drop"}],
        "declared_at": "transformations/shop.py:14",
        **more,
    }


def flow(target: str, reads: list[str], *, streaming: bool = True, cdc: bool = False) -> Json:
    """A flow of `views.graph.graph_json` that is named as its target."""
    return {
        "name": target,
        "target": target,
        "once": False,
        "streaming": streaming,
        "auto_cdc": cdc,
        "reads": [{"name": name, "streaming": streaming} for name in reads],
        "declared_at": "transformations/shop.py:18",
    }


def state(name: str, word: str, *, rows: int | None = None, seconds: float | None = 4.2, **more: Any) -> Json:
    """The state of a flow as a flow board has it."""
    return {
        "flow": name,
        "dataset": name,
        "state": word,
        "reason": "",
        "rows_written": rows,
        "rows_upserted": 0,
        "rows_deleted": 0,
        "rows_dropped": 0,
        "records_failed": 0,
        "seconds": seconds,
        **more,
    }


def graph(pipeline: str, datasets: list[Json], flows: list[Json], states: list[Json]) -> Json:
    """The answer of the route `graph`, with the positions of the product's own layout."""
    known = {each["name"]: each for each in datasets}
    outside = list(dict.fromkeys(read["name"] for each in flows for read in each["reads"] if read["name"] not in known))
    nodes = [_node(each["name"], each["kind"], f"{each['kind'].replace('_', ' ')} · 5 columns") for each in datasets]
    nodes += [_node(name, "external", "files") for name in outside]
    edges = [
        Edge(source=read["name"], target=each["target"], streaming=read["streaming"])
        for each in flows
        for read in each["reads"]
    ]
    layout = lay_out(Picture(title=pipeline, nodes=tuple(nodes), edges=tuple(edges)))
    return {
        "graph": {"pipeline": pipeline, "datasets": datasets, "flows": flows, "external": outside},
        "layout": {
            "width": layout.width,
            "height": layout.height,
            "nodes": [
                {
                    "id": node.key,
                    "kind": node.kind.value.replace("view", "temporary_view")
                    if node.kind is NodeKind.TEMPORARY_VIEW
                    else node.kind.value.replace(" ", "_"),
                    "title": node.title,
                    "note": node.note,
                    "x": box.left,
                    "y": box.top,
                    "w": box.width,
                    "h": box.height,
                    "group": node.key.split(".")[1] if node.key.count(".") == 2 else "external",
                }
                for node, box in layout.boxes
            ],
            "edges": [
                {
                    "from": edge.source,
                    "to": edge.target,
                    "kind": "stream" if edge.streaming else "batch",
                    "path": _path(line),
                }
                for edge, line in layout.lines
            ],
        },
        "states": {each["flow"]: each for each in states},
    }


def _node(name: str, kind: str, note: str) -> Node:
    return Node(key=name, kind=_KINDS[kind], title=name.rsplit(".", maxsplit=1)[-1], note=note, full_name=name)


def _path(points: tuple[tuple[float, float], ...]) -> str:
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in rest:
        middle = (x + nx) / 2
        parts.append(
            f"L{nx:.1f} {ny:.1f}" if ny == y else f"C{middle:.1f} {y:.1f} {middle:.1f} {ny:.1f} {nx:.1f} {ny:.1f}"
        )
        x, y = nx, ny
    return "".join(parts)


def update(pipeline: str, number: int, word: str = "COMPLETED", **more: Any) -> Json:
    """An update; `number` is its place, and the newest one has the highest."""
    hours = more.pop("hours", 1.0)
    seconds = more.pop("seconds", 40 + (number * 7) % 23)
    ended = word not in {"RUNNING", "INITIALIZING"}
    return {
        "update_id": uid(pipeline, number),
        "request_id": uid(pipeline, "request", more.pop("request", number)),
        "attempt": 1,
        "pipeline_id": uid(pipeline),
        "state": word,
        "cause": "JOB_TASK",
        "user": "ada",
        "host": "etl-1",
        "pid": 4711,
        "started_by": "server",
        "created_at": ago(hours=hours, seconds=seconds or 0),
        "ended_at": ago(hours=hours) if ended else None,
        "seconds": seconds if ended else None,
        "kind": "REFRESH",
        "error": None,
        "log": True,
        **more,
    }


def row(pipeline: str, **more: Any) -> Json:
    """A row of the home screen."""
    return {
        "pipeline_id": uid(pipeline),
        "name": pipeline,
        "spec_file": f"/home/ada/data/{pipeline}/pipeline.yml",
        "storage": f"/home/ada/data/{pipeline}/.sluice",
        "catalog": "main",
        "schema": pipeline,
        "continuous": False,
        "activity": "IDLE",
        "update": None,
        "last": None,
        "recent": [],
        "attention": None,
        "lag": None,
        "quarantine_rows": None,
        "next_run": None,
        "parked": None,
        "fault": None,
        **more,
    }


def recent(*words: str) -> list[Json]:
    """The last requests by their outcomes, oldest first."""
    return [
        {
            "request_id": uid("recent", place),
            "outcome": word,
            "seconds": 20 + (place * 13) % 50,
            "attempts": 6 if word == "FAILED" else 1,
        }
        for place, word in enumerate(words)
    ]


def event(pipeline: str, number: int, message: str, **more: Any) -> Json:
    """An event of a log; `number` is its place in it."""
    level, kind = more.pop("level", "INFO"), more.pop("type", "flow_progress")
    return {
        "id": uid(pipeline, "event", number),
        "sequence": {"data_plane_id": {"instance": "1", "seq_no": number}},
        "origin": {
            "pipeline_id": uid(pipeline),
            "pipeline_name": pipeline,
            "update_id": more.pop("update_id", uid(pipeline, 25)),
            "dataset_name": more.pop("dataset", None),
            "flow_name": more.pop("flow", None),
            "host": "etl-1",
        },
        "timestamp": more.pop("timestamp", ago(seconds=max(0, 400 - number))),
        "message": message,
        "level": level,
        "maturity_level": "STABLE",
        "error": more.pop("error", None),
        "details": {kind: more},
        "event_type": kind,
    }
