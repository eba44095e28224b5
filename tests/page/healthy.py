"""A server with seven pipelines: one runs, one is parked, one needs a person, one copies a database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.page.worlds import (
    NOW,
    Json,
    World,
    ago,
    dataset,
    event,
    flow,
    graph,
    recent,
    row,
    state,
    uid,
    update,
)

_SHOP = "main.shop."
_HOURS = [
    {"version": version, "timestamp": ago(hours=42 - version), "operation": "STREAMING UPDATE",
     "parameters": {}, "metrics": {"numOutputRows": str(120 * version), "numFiles": "1"}}
    for version in range(41, 0, -1)
]  # fmt: skip


def seven_pipelines() -> World:
    """Seven pipelines: one runs, one is parked, one needs a person, one copies a database."""
    world = World()
    _add_shop(world)
    _add_flights(world)
    _add_bank(world)
    for name, more in _OTHERS.items():
        world.rows.append(row(name, **more))
        world.graphs[name] = small(name)
        world.updates[name] = [update(name, number, hours=26 - number) for number in range(1, 26)]
    world.schedules.extend(schedules())
    world.alerts.append(
        {"at": ago(hours=5), "kind": "failed", "pipeline": "flights", "recovered_at": None,
         "text": "DELTA_SOURCE_CHANGED in main.default.orders. sluice doctor orders --apply 2 repairs it."}
    )  # fmt: skip
    world.tokens.append(
        {"id": "t1", "name": "airflow", "role": "operate", "pipelines": ["shop"], "created_at": ago(days=40),
         "expires_at": ago(days=-50), "last_used_at": ago(minutes=3)}
    )  # fmt: skip
    return world


_OTHERS: dict[str, Json] = {
    "crm": {
        "last": update("crm", 25, hours=7),
        "recent": recent(*["COMPLETED"] * 14),
        "next_run": ago(hours=-9),
        "lag": {"health": "IDLE", "seconds": None, "records": None, "bytes": None, "flows": 2},
    },
    "telemetry": {
        "continuous": True,
        "activity": "RUNNING",
        "update": update("telemetry", 3, "RUNNING", hours=30, seconds=0, kind="CONTINUOUS", started_by="other"),
        "last": update("telemetry", 2, "CANCELED", hours=31),
        "recent": recent("COMPLETED", "CANCELED", "COMPLETED", "CANCELED"),
        "lag": {"health": "BEHIND", "seconds": 95, "records": 120_400, "bytes": 48_000_000, "flows": 3},
    },
    "nightly": {
        "last": update("nightly", 25, "LOST", hours=3),
        "recent": recent("COMPLETED", "COMPLETED", "LOST"),
        "activity": "WAITING_FOR_RESOURCES",
        "next_run": ago(hours=-3),
    },
    "archive": {
        "fault": {
            "condition": "STORAGE_NOT_READABLE",
            "what": "s3a://archive/.sluice can't be listed: access denied.",
            "remedy": "Grant s3:ListBucket to the role of this server.",
        },
    },
}


def small(name: str) -> Json:
    """A graph of a table and a view that reads it."""
    table, view = f"main.{name}.raw", f"main.{name}.summary"
    flows = [flow(table, [f"data/{name}"]), flow(view, [table], streaming=False)]
    return graph(
        name,
        [dataset(table), dataset(view, "materialized_view")],
        flows,
        [state(table, "COMPLETED", rows=1_204), state(view, "COMPLETED", rows=12)],
    )


def _shop_graph() -> Json:
    names = ("orders", "users", "by_city", "revenue", "customers", "returns", "active", "to_kafka", "daily")
    orders, users, by_city, revenue, customers, returns, active, sink, daily = (_SHOP + name for name in names)
    datasets = [
        dataset(orders, comment="All orders as they come in, one row each"),
        dataset(users),
        dataset(by_city, "materialized_view"),
        dataset(revenue, "materialized_view"),
        dataset(customers),
        dataset(returns),
        dataset(active, "temporary_view"),
        dataset(sink, "sink"),
        dataset(daily, "materialized_view"),
    ]
    flows = [
        flow(orders, ["data/orders"]),
        flow(users, ["crm.users"], cdc=True),
        flow(by_city, [orders], streaming=False),
        flow(revenue, [orders, returns], streaming=False),
        flow(customers, [users, orders]),
        flow(returns, ["data/returns"]),
        flow(active, [customers], streaming=False),
        flow(sink, [orders]),
        flow(daily, [revenue, active], streaming=False),
    ]
    states = [
        state(orders, "RUNNING", rows=12_004, seconds=38.2),
        state(users, "FAILED", seconds=2.1, reason="a column of the keys is missing"),
        state(by_city, "SKIPPED", seconds=None, reason="no new data in orders since v41"),
        state(revenue, "QUEUED", seconds=None),
        state(customers, "COMPLETED", rows=409, rows_dropped=3, records_failed=3, seconds=6.4),
        state(returns, "COMPLETED", rows=17, seconds=1.9),
        state(sink, "RUNNING", rows=11_872, seconds=31.0),
        state(daily, "QUEUED", seconds=None),
    ]
    return graph("shop", datasets, flows, states)


def _shop_events(found: Json) -> list[Json]:
    events = [event("shop", 1, "Update starts.", type="create_update"), event("shop", 2, "The update is RUNNING.")]
    for number, each in enumerate(found["states"].values(), 3):
        level = "ERROR" if each["state"] == "FAILED" else "WARN" if each["rows_dropped"] else "INFO"
        reason = f": {each['reason']}." if each["reason"] else "."
        events.append(
            event("shop", number, f"Flow {each['flow']} is {each['state']}{reason}", level=level,
                  dataset=each["dataset"], flow=each["flow"], status=each["state"])
        )  # fmt: skip
    return events


def _shop_plan() -> Json:
    none: Json = {"after": [], "rebuild": None, "check": False, "broken": None}
    broken = {
        "kind": "breakage",
        "condition": "STREAM_STATE_INCOMPATIBLE",
        "problem": "Its checkpoint holds dropDuplicates, the query has none.",
        "ways": "Reset it, or put the operator back.",
    }
    return {
        "pipeline": "shop",
        "steps": [
            {"kind": "run_flow", "flow": _SHOP + "orders", "dataset": _SHOP + "orders", "generation": 2, **none,
             "reason": "3 new files in data/orders, 913 B"},
            {"kind": "run_flow", "flow": _SHOP + "users", "dataset": _SHOP + "users", "generation": 1, **none,
             "broken": broken, "reason": ""},
            {"kind": "refresh_view", "flow": _SHOP + "revenue", "dataset": _SHOP + "revenue", **none, "check": True,
             "reason": "its input orders changes"},
            {"kind": "skip_step", "flow": _SHOP + "by_city", "dataset": _SHOP + "by_city", "excluded": False,
             "waits_for": [], "reason": "no new data in orders since v41"},
            {"kind": "skip_step", "flow": _SHOP + "customers", "dataset": _SHOP + "customers", "excluded": False,
             "waits_for": [_SHOP + "users"], "reason": "users would fail"},
        ],
        "summary": "2 steps to do (1 only if its inputs change), 1 skipped, 1 waiting, 1 would fail.",
    }  # fmt: skip


def _add_shop(world: World) -> None:
    found = _shop_graph()
    updates = [update("shop", number, hours=26 - number) for number in range(1, 25)]
    for number, word in ((20, "FAILED"), (21, "FAILED"), (22, "COMPLETED")):
        updates[number - 1] |= {"state": word, "request_id": uid("shop", "request", 20), "attempt": number - 19}
        updates[number - 1]["error"] = "FLOW_FAILED: a column of the keys is missing" if word == "FAILED" else None
    running = update("shop", 25, "RUNNING", hours=0, seconds=42, cause="USER_ACTION")
    world.rows.append(
        row("shop", activity="RUNNING", update=running, last=updates[-1], next_run=None, quarantine_rows=3,
            recent=recent(*["COMPLETED"] * 5, "FAILED", *["COMPLETED"] * 8),
            lag={"health": "RUNNING", "seconds": 3, "records": 3, "bytes": 913, "flows": 9})
    )  # fmt: skip
    world.graphs["shop"], world.updates["shop"] = found, [*updates, running]
    world.events["shop"] = _shop_events(found)
    world.lags["shop"] = [
        {"flow": _SHOP + name, "dataset": _SHOP + name, "health": health, "records": records, "bytes": size,
         "seconds": seconds, "last_event": ago(seconds=5), "silent_seconds": 5, "reason": "", "quarantined": None}
        for name, health, records, size, seconds in (
            ("orders", "RUNNING", 3, 913, 4.0), ("users", "FAILED", 212, 40_000, 5_400.0),
            ("returns", "IDLE", 0, 0, 0.0))
    ]  # fmt: skip
    world.doctors["shop"] = examination("shop", _SHOP + "users", flows=9)
    world.jobs[("shop", "plan")] = _shop_plan()
    world.jobs[("shop", "doctor")] = world.doctors["shop"]["examination"]
    world.jobs[("shop", "rewind")] = {
        "time": ago(hours=2),
        "tables": [
            {"table": _SHOP + name, "version_before": 41, "version_after": 40, "rows_before": 900, "rows_after": 880}
            for name in ("orders", "customers")
        ],
        "flows": [{"flow": _SHOP + "orders", "reads": ["data/orders again from batch 40"]}],
    }
    world.jobs[("shop", "checkpoints-rollback")] = {"change": "generation 2 -> generation 1", "cost": "lost: none"}
    world.jobs[("shop", "checkpoints")] = generations(_SHOP + "orders")
    world.jobs[("shop", "rows")] = [
        {"id": number, "city": None if number % 7 == 3 else "Østerås" if number % 2 else 'null, "quoted"',
         "amount": number * 1.25, "ordered_at": ago(minutes=number), "lines": ["a", "b"]}
        for number in range(60)
    ]  # fmt: skip
    world.jobs[("shop", "quarantine")] = [
        {"flow": _SHOP + "customers", "dataset": _SHOP + "customers", "reasons": ["positive_amount"], "rows": 3,
         "state": "OPEN", "first": ago(hours=3), "last": ago(minutes=40)},
        {"flow": _SHOP + "orders", "dataset": _SHOP + "orders", "reasons": ["not parsed"], "rows": 12,
         "state": "REPLAYED", "first": ago(days=3), "last": ago(days=3)},
    ]  # fmt: skip
    world.jobs[("shop", "quarantine-rows")] = [
        {"id": f"r{number}", "state": "OPEN", "reasons": ["positive_amount"], "quarantined_at": ago(hours=1),
         "generation": 2, "batch": 7, "file": "data/orders/2026-11-28.json", "position": None,
         "row": {"id": number, "amount": -1.5, "city": "Oslo"}}
        for number in range(3)
    ]  # fmt: skip
    world.jobs[("shop", "quarantine-replay")] = {
        "flow": _SHOP + "customers", "dataset": _SHOP + "customers", "dry_run": True, "passed": 2,
        "failed": [{"reasons": ["positive_amount"], "rows": 1}],
    }  # fmt: skip
    world.jobs[("shop", "doctor/ways")] = {
        "command": "sluice checkpoints reset users", "change": "generation 1 at startingVersion=1 -> no checkpoint",
        "cost": "lost: none; repeated: at most 3 rows; read again: 3 rows",
    }  # fmt: skip
    _add_quality(world, found)


def _add_quality(world: World, found: Json) -> None:
    orders = next(each for each in found["graph"]["datasets"] if each["name"] == _SHOP + "orders")
    points = [
        {"update_id": uid("shop", number), "timestamp": ago(hours=26 - number), "passed": 1_000 + number * 13,
         "failed": (number * 5) % 17 if number % 3 else 0}
        for number in range(1, 25)
    ]  # fmt: skip
    world.datasets[f"shop {_SHOP}orders"] = {
        **orders,
        "quality": [{"expectation": "positive_amount", "action": "drop", "points": points}],
        "versions": _HOURS,
        "folder": "/home/ada/data/shop/.sluice/tables/orders",
    }


def generations(name: str) -> list[Json]:
    """Two generations of the checkpoint of a flow, as `checkpoints_json` has them."""
    common = {"dataset": name, "flow": name, "start": None, "undone_by": "", "completed": False, "path": "…"}
    return [
        {**common, "number": 1, "state": "KEPT", "begun_at": ago(days=9), "reason": "first run", "batches": 18,
         "sources": [{"startingVersion": 0}]},
        {**common, "number": 2, "state": "CURRENT", "begun_at": ago(days=2), "reason": 'reset by ada "TICKET-7"',
         "batches": 41, "sources": [{"startingVersion": 41}]},
    ]  # fmt: skip


def _amount(rows: int | None, note: str = "", *, at_most: bool = False) -> Json:
    return {"rows": rows, "note": note, "at_most": at_most, "is_gone": False}


def examination(pipeline: str, flow_name: str, *, flows: int) -> Json:
    """An examination of the doctor with one finding, which has four ways out."""

    def way(number: int, text: str, command: str, *costs: Json) -> Json:
        cost = dict(zip(("lost", "repeated", "reread"), costs, strict=True))
        return {"number": number, "way": f"WAY_{number}", "text": text, "command": command, "cost": cost}

    none, three = _amount(0), _amount(3)
    gone = _amount(None, "rows that were deleted from /data/orders")
    finding = {
        "flow": flow_name, "dataset": flow_name, "diagnosis": "DELTA_SOURCE_CHANGED",
        "meaning": "Rows of the Delta source were updated or deleted. A stream has inserts only.",
        "condition": "DELTA_SOURCE_TABLE_IGNORE_CHANGES", "sqlstate": None,
        "cause": "Version 2 of /data/orders deletes 2 rows.", "location": "transformations/shop.py:18",
        "since": ago(hours=5), "updates": 6, "evidence": ["batch 0 is open", "3 rows, 913 B unread"],
        "position": {"generation": 1, "starts": ["startingVersion=1"]}, "digest": "d1",
        "ways": [
            way(1, "Read the change feed", "spark.readStream.option('readChangeFeed', True)", none, none, none),
            way(2, "Reset to the code's start", "sluice checkpoints reset users", none, _amount(3, at_most=True),
                three),
            way(3, "Continue after version 2", "sluice checkpoints reset users --from startingVersion=3", _amount(2),
                none, none),
            way(4, "Rebuild from the sources", "sluice run --full-refresh users", gone, none, three),
        ],
    }  # fmt: skip
    return {
        "examined_at": ago(minutes=12),
        "examination": {
            "pipeline": pipeline,
            "flows": flows,
            "findings": [finding],
            "quarantined": [{"flow": flow_name, "rows": 3, "since": ago(hours=3)}],
        },
        "job": None,
    }


def _add_flights(world: World) -> None:
    failed = update("flights", 24, "FAILED", hours=1, attempt=6, error="main.default.orders: source changed")
    world.rows.append(
        row("flights", last=failed, recent=recent(*["COMPLETED"] * 8, *["FAILED"] * 6),
            attention="main.default.orders: source changed", next_run=ago(hours=-2),
            lag={"health": "STUCK", "seconds": 14_400, "records": None, "bytes": 88_000_000, "flows": 4})
    )  # fmt: skip
    world.graphs["flights"] = small("flights")
    world.updates["flights"] = [*(update("flights", number, hours=26 - number) for number in range(1, 24)), failed]
    world.doctors["flights"] = examination("flights", "main.flights.raw", flows=4)


def _add_bank(world: World) -> None:
    world.rows.append(
        row("bank", activity="PARKED", parked={"since": ago(minutes=22)}, last=update("bank", 25, hours=0.4),
            recent=recent(*["COMPLETED"] * 14),
            lag={"health": "IDLE", "seconds": 0, "records": 0, "bytes": 0, "flows": 2})
    )  # fmt: skip
    world.graphs["bank"] = small("bank")
    world.updates["bank"] = [update("bank", number, hours=26 - number) for number in range(1, 26)]
    table: Json = {
        "table": "public.events", "target": "main.bank.events", "state": "SNAPSHOT", "generation": 1, "chunks": 1_204,
        "percent": 62.0, "remaining_seconds": 2_460.0, "lag_bytes": 52_000, "lag_seconds": 4.0, "error": None,
        "way_out": None, "not_copied_children": [],
    }  # fmt: skip
    others = [
        {**table, "table": "public.accounts", "target": "main.bank.accounts", "state": "FOLLOWING", "percent": 100.0,
         "chunks": 12, "remaining_seconds": 0.0},
        {**table, "table": "public.audit", "target": "main.bank.audit", "state": "GAP", "percent": None,
         "remaining_seconds": None, "lag_bytes": None, "lag_seconds": None, "error": "SLOT_LOST",
         "way_out": "sluice ingest resync public.audit"},
    ]  # fmt: skip
    world.jobs[("bank", "ingest-status")] = [
        {"gateway": "bank_gateway", "paused": False, "position_name": "sluice_bank", "is_read": True,
         "retained_bytes": 1_200_000_000, "position": "0/1A2B3C4", "gap": None, "new_position_refused": None,
         "error": None, "waits_for": [], "tables": [table, *others]}
    ]  # fmt: skip
    world.jobs[("bank", "ingest-skip-snapshot")] = "public.events follows its changes only."
    world.jobs[("bank", "ingest-preflight")] = [
        {"gateway": "bank_gateway", "failed": True, "tables": ["public.events", "public.accounts"], "findings": [
            {"condition": "REPLICA_IDENTITY", "severity": "error", "table": "public.audit",
             "what": "The table has no primary key.", "remedy": "Set a replica identity.",
             "statement": "ALTER TABLE public.audit REPLICA IDENTITY FULL"}]}
    ]  # fmt: skip
    runs = [("DONE", 1_180), ("FLIGHT", 4), ("DONE", 24), ("AGAIN", 3), ("STAGED", 9), ("TODO", 720)]
    world.chunks["public.events"] = {
        "gateway": "bank_gateway", "table": "public.events", "chunks": 1_940, "done": 1_204,
        "runs": [{"state": word, "count": count} for word, count in runs],
        "killed": [{"chunk": 611, "at": ago(minutes=30)}],
    }  # fmt: skip


def schedules() -> list[Json]:
    """Four schedules: two by the clock, one on data, one paused."""

    def schedule(name: str, hours: float, **more: Any) -> Json:
        every = [(NOW + timedelta(hours=hours + 24 * day)).isoformat() for day in range(5)]
        return {
            "schedule": name, "name": "trigger", "pipeline_id": uid(name), "pipeline": name, "kind": "cron",
            "cron": "0 30 5 * * ?",
            "text": "every day at 05:30", "timezone": "Europe/Oslo", "paused": False, "misfire": "once",
            "overlap": "skip", "retries": 2, "next": every, "missed": 0, "last_missed": None,
            "last": {"at": ago(hours=24 - hours), "outcome": "COMPLETED", "update_id": uid(name, 25), "reason": None},
            **more,
        }  # fmt: skip

    return [
        schedule("flights", 2, missed=1, last_missed=ago(days=1)),
        schedule("crm", 9, cron="0 30 2 * * ?", text="every day at 02:30"),
        schedule("bank", 0, kind="on_data", cron=None, text="when data arrives, at most every 5 min", next=[],
                 last={"at": ago(minutes=22), "outcome": "SKIPPED", "update_id": None, "reason": "nothing new"}),
        schedule("nightly", 3, paused=True),
    ]  # fmt: skip
