"""The worlds that the tests of the page show."""

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


def empty() -> World:
    """A server whose folders have no pipeline."""
    return World()


def healthy() -> World:
    """Seven pipelines: one runs, one is parked, one needs a person, one copies a database."""
    world = World()
    _add_shop(world)
    _add_flights(world)
    _add_bank(world)
    for name, more in _OTHERS.items():
        world.rows.append(row(name, **more))
        world.graphs[name] = _small(name)
        world.updates[name] = [update(name, number, hours=26 - number) for number in range(1, 26)]
    world.schedules.extend(_schedules())
    world.alerts.append(
        {"at": ago(hours=5), "kind": "failed", "pipeline": "flights", "recovered_at": None,
         "text": "DELTA_SOURCE_CHANGED in main.default.orders. sluice doctor orders --apply 2 continues after version 2."}
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


def _small(name: str) -> Json:
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
            ("orders", "RUNNING", 3, 913, 4.0), ("users", "FAILED", 212, 40_000, 5_400.0), ("returns", "IDLE", 0, 0, 0.0))
    ]  # fmt: skip
    world.doctors["shop"] = _examination("shop", _SHOP + "users", flows=9)
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
    world.jobs[("shop", "checkpoints")] = _generations(_SHOP + "orders")
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


def _generations(name: str) -> list[Json]:
    common = {"dataset": name, "flow": name, "start": None, "undone_by": "", "completed": False, "path": "…"}
    return [
        {**common, "number": 1, "state": "KEPT", "begun_at": ago(days=9), "reason": "first run", "batches": 18,
         "sources": [{"startingVersion": 0}]},
        {**common, "number": 2, "state": "CURRENT", "begun_at": ago(days=2), "reason": 'reset by ada "TICKET-7"',
         "batches": 41, "sources": [{"startingVersion": 41}]},
    ]  # fmt: skip


def _amount(rows: int | None, note: str = "", *, at_most: bool = False) -> Json:
    return {"rows": rows, "note": note, "at_most": at_most, "is_gone": False}


def _examination(pipeline: str, flow_name: str, *, flows: int) -> Json:
    def way(number: int, text: str, command: str, lost: Json, repeated: Json, reread: Json) -> Json:
        cost = {"lost": lost, "repeated": repeated, "reread": reread}
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
            way(2, "Reset to the code's start", "sluice checkpoints reset users", none, _amount(3, at_most=True), three),
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
    world.graphs["flights"] = _small("flights")
    world.updates["flights"] = [*(update("flights", number, hours=26 - number) for number in range(1, 24)), failed]
    world.doctors["flights"] = _examination("flights", "main.flights.raw", flows=4)


def _add_bank(world: World) -> None:
    world.rows.append(
        row("bank", activity="PARKED", parked={"since": ago(minutes=22)}, last=update("bank", 25, hours=0.4),
            recent=recent(*["COMPLETED"] * 14), lag={"health": "IDLE", "seconds": 0, "records": 0, "bytes": 0, "flows": 2})
    )  # fmt: skip
    world.graphs["bank"] = _small("bank")
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


def _schedules() -> list[Json]:
    def schedule(name: str, hours: float, **more: Any) -> Json:
        every = [(NOW + timedelta(hours=hours + 24 * day)).isoformat() for day in range(5)]
        return {
            "schedule": name, "pipeline_id": uid(name), "pipeline": name, "kind": "cron", "cron": "0 30 5 * * ?",
            "text": "every day at 05:30", "timezone": "Europe/Oslo", "paused": False, "misfire": "once",
            "overlap": "skip", "retries": 2, "next": every, "missed": [],
            "last": {"at": ago(hours=24 - hours), "outcome": "COMPLETED", "update_id": uid(name, 25), "reason": None},
            **more,
        }  # fmt: skip

    return [
        schedule("flights", 2, missed=[ago(days=1)]),
        schedule("crm", 9, cron="0 30 2 * * ?", text="every day at 02:30"),
        schedule("bank", 0, kind="on_data", cron=None, text="when data arrives, at most every 5 min", next=[],
                 last={"at": ago(minutes=22), "outcome": "SKIPPED", "update_id": None, "reason": "nothing new"}),
        schedule("nightly", 3, paused=True),
    ]  # fmt: skip


def broken() -> World:
    """A spec that can't be loaded, definitions that can't be resolved, and a pipeline that was never run."""
    world = World(role="view")
    world.faults.append(
        {"file": "/home/ada/data/typo/pipeline.yml", "condition": "SPEC_FIELD_UNKNOWN",
         "what": "`continous` is no field of a spec.", "remedy": "Did you mean `continuous`?"}
    )  # fmt: skip
    world.rows.append(row("fresh"))
    orders, bad = _SHOP + "orders", _SHOP + "bad"
    error = "[COLUMN_NOT_FOUND] `amuont` is no column of orders.\n  at transformations/shop.py:31\n  Did you mean amount?"
    world.graphs["shop"] = graph(
        "shop",
        [dataset(orders), dataset(bad, "materialized_view", error=error, schema=None),
         dataset(_SHOP + "after", waits_for=[bad], schema=None)],
        [flow(orders, ["data/orders"]), flow(bad, [orders], streaming=False), flow(_SHOP + "after", [bad])],
        [state(orders, "COMPLETED", rows=1)],
    )  # fmt: skip
    lost = update("shop", 2, "LOST", hours=2, seconds=None, ended_at=ago(hours=2))
    world.rows.append(row("shop", last=lost, recent=recent("COMPLETED", "LOST")))
    world.updates["shop"] = [update("shop", 1, hours=5), lost]
    return world


def thousand_nodes(count: int = 1_000) -> World:
    """A pipeline of many datasets in eight schemas, and a grid of 200 updates × 200 flows."""
    world = World()
    schemas = ("landing", "bronze", "clean", "silver", "joined", "gold", "marts", "exports")
    per = count // len(schemas)
    datasets, flows, states = [], [], []
    for layer, schema in enumerate(schemas):
        for number in range(per):
            name = f"main.{schema}.t{number:03d}_{schema}"
            before = f"main.{schemas[layer - 1]}.t{{:03d}}_{schemas[layer - 1]}"
            reads = [before.format(number), before.format((number * 7 + 3) % per)] if layer else [f"data/{number % 20}"]
            datasets.append(dataset(name, "materialized_view" if layer > 4 else "streaming_table"))
            flows.append(flow(name, reads, streaming=layer < 5))
            states.append(state(name, "FAILED" if number == 17 and layer == 3 else "COMPLETED", rows=number * 1_000))
    world.graphs["big"] = graph("big", datasets, flows, states)
    world.rows.append(row("big", last=update("big", 200), recent=recent(*["COMPLETED"] * 14)))
    world.updates["big"] = [update("big", number, hours=(201 - number) * 2) for number in range(1, 201)]
    return world


def many_events(count: int = 100_000) -> World:
    """A pipeline with a log of many events."""
    world = World(rows=[row("loud", last=update("loud", 1))], updates={"loud": [update("loud", 1)]})
    world.graphs["loud"] = _small("loud")
    world.events["loud"] = [
        event("loud", number, f"Flow main.loud.raw has written batch {number}.", flow="main.loud.raw",
              dataset="main.loud.raw", level="WARN" if number % 500 == 0 else "INFO",
              timestamp=ago(seconds=count - number))
        for number in range(count)
    ]  # fmt: skip
    return world


HOSTILE = "<img src=x onerror=\"window.hacked=1\">'`${window.hacked=1}\u202e</script><script>window.hacked=1</script>"


def hostile(text: str = HOSTILE) -> World:
    """One hostile text in every field that data can reach."""
    world = World()
    name = f"main.{text.replace('.', '')}.t"
    found = graph(
        "evil",
        [dataset(name, comment=text, declared_at=text, error=text), dataset("main.evil.ok")],
        [flow(name, [text]), flow("main.evil.ok", [name])],
        [state(name, "FAILED", reason=text), state("main.evil.ok", text, reason=text)],
    )
    found["graph"]["datasets"][0]["schema"]["fields"][0] |= {"name": text, "type": text, "metadata": {"comment": text}}
    found["graph"]["datasets"][0]["expectations"][0] |= {"name": text, "condition": text, "action": text}
    world.graphs["evil"] = found
    bad = update("evil", 1, "FAILED", error=text, user=text, host=text, cause=text, kind=text)
    world.rows.append(
        row("evil", last=bad, attention=text, recent=recent(text), fault={"condition": text, "what": text, "remedy": text})
    )
    world.updates["evil"] = [bad]
    world.events["evil"] = [event("evil", 1, text, level="ERROR", error={"fatal": True, "exceptions": [
        {"class_name": text, "message": text}]}, flow=name, dataset=name, status=text)]  # fmt: skip
    examined = _examination("evil", name, flows=1)
    finding = examined["examination"]["findings"][0]
    finding |= {"diagnosis": text, "meaning": text, "condition": text, "cause": text, "evidence": [text]}
    finding["ways"][1] |= {"text": text, "command": f"sluice {text}"}
    world.doctors["evil"] = examined
    world.jobs[("evil", "rows")] = [{text: text, "id": 1}]
    world.jobs[("evil", "quarantine")] = [
        {"flow": text, "dataset": text, "reasons": [text], "rows": 1, "state": "OPEN", "first": text, "last": text}
    ]
    world.jobs[("evil", "quarantine-rows")] = [
        {"id": text, "state": text, "reasons": [text], "quarantined_at": text, "file": text, "row": {text: text}}
    ]
    world.jobs[("evil", "checkpoints")] = [
        {**each, "state": text, "reason": text, "start": text, "undone_by": text, "sources": [{text: text}]}
        for each in _generations(name)
    ]
    world.jobs[("evil", "plan")] = {
        "pipeline": text, "summary": text, "warnings": [{"reason": text}], "fault": {"reason": text},
        "steps": [
            {"kind": text, "flow": name, "dataset": name, "reason": text, "words": text, "broken": None},
            {"kind": "run_flow", "flow": name, "dataset": name, "reason": text,
             "broken": {"problem": text, "ways": text}},
        ],
    }  # fmt: skip
    table = {
        "table": text, "target": text, "state": text, "generation": 1, "chunks": 3, "percent": None, "error": text,
        "remaining_seconds": None, "lag_bytes": None, "lag_seconds": None, "way_out": text, "not_copied_children": [text],
    }  # fmt: skip
    world.jobs[("evil", "ingest-status")] = [
        {"gateway": text, "paused": False, "position_name": text, "is_read": True, "retained_bytes": 1, "position": text,
         "gap": text, "error": text, "waits_for": [text], "tables": [table]}
    ]  # fmt: skip
    world.chunks[text] = {"gateway": text, "table": text, "chunks": 3, "done": 1, "killed": [{"chunk": 1, "at": text}],
                          "runs": [{"state": text, "count": 3}]}  # fmt: skip
    world.datasets[f"evil {name}"] = {
        "quality": [{"expectation": text, "action": text, "points": [
            {"update_id": text, "timestamp": text, "passed": 1, "failed": 1},
            {"update_id": text, "timestamp": ago(hours=1), "passed": 1, "failed": 1}]}],
        "versions": [{"version": 1, "timestamp": text, "operation": text, "parameters": {}, "metrics": {text: text}}],
        "folder": text,
    }  # fmt: skip
    world.alerts.append({"at": text, "kind": text, "pipeline": text, "text": text, "recovered_at": None})
    world.tokens.append({"id": text, "name": text, "role": text, "pipelines": [text], "expires_at": text, "last_used_at": text})
    world.lags["evil"] = [{"flow": name, "dataset": name, "health": text, "records": 1, "bytes": 1, "seconds": 2.0}]
    world.faults.append({"file": text, "condition": text, "what": text, "remedy": text})
    world.schedules.extend([each | {"pipeline": text, "text": text, "timezone": text} for each in _schedules()])
    return world
