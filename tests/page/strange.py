"""A server with one text in every field that data can reach."""

from __future__ import annotations

from tests.page.healthy import examination, generations, schedules
from tests.page.worlds import (
    World,
    ago,
    dataset,
    event,
    flow,
    graph,
    recent,
    row,
    state,
    update,
)

HOSTILE = '<img src=x onerror="window.hacked=1">\'`${window.hacked=1}\u202e</script><script>window.hacked=1</script>'


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
        row(
            "evil",
            last=bad,
            attention=text,
            recent=recent(text),
            fault={"condition": text, "what": text, "remedy": text},
        )
    )
    world.updates["evil"] = [bad]
    world.events["evil"] = [event("evil", 1, text, level="ERROR", error={"fatal": True, "exceptions": [
        {"class_name": text, "message": text}]}, flow=name, dataset=name, status=text)]  # fmt: skip
    examined = examination("evil", name, flows=1)
    finding = examined["examination"]["findings"][0]
    finding |= {"diagnosis": text, "meaning": text, "condition": text, "cause": text, "evidence": [text]}
    finding["ways"][1] |= {"text": text, "command": f"sluice {text}"}
    world.doctors["evil"] = examined
    _add_jobs(world, text, name)
    _add_ingestion(world, text)
    _add_settings(world, text)
    world.datasets[f"evil {name}"] = {
        "quality": [{"expectation": text, "action": text, "points": [
            {"update_id": text, "timestamp": text, "passed": 1, "failed": 1},
            {"update_id": text, "timestamp": ago(hours=1), "passed": 1, "failed": 1}]}],
        "versions": [{"version": 1, "timestamp": text, "operation": text, "parameters": {}, "metrics": {text: text}}],
        "folder": text,
    }  # fmt: skip
    world.lags["evil"] = [{"flow": name, "dataset": name, "health": text, "records": 1, "bytes": 1, "seconds": 2.0}]
    return world


def _add_jobs(world: World, text: str, name: str) -> None:
    world.jobs[("evil", "rows")] = [{text: text, "id": 1}]
    world.jobs[("evil", "quarantine")] = [
        {"flow": text, "dataset": text, "reasons": [text], "rows": 1, "state": "OPEN", "first": text, "last": text}
    ]
    world.jobs[("evil", "quarantine-rows")] = [
        {"id": text, "state": text, "reasons": [text], "quarantined_at": text, "file": text, "row": {text: text}}
    ]
    world.jobs[("evil", "checkpoints")] = [
        {**each, "state": text, "reason": text, "start": text, "undone_by": text, "sources": [{text: text}]}
        for each in generations(name)
    ]
    world.jobs[("evil", "plan")] = {
        "pipeline": text, "summary": text, "warnings": [{"reason": text}], "fault": {"reason": text},
        "steps": [
            {"kind": text, "flow": name, "dataset": name, "reason": text, "words": text, "broken": None},
            {"kind": "run_flow", "flow": name, "dataset": name, "reason": text,
             "broken": {"problem": text, "ways": text}},
        ],
    }  # fmt: skip


def _add_ingestion(world: World, text: str) -> None:
    table = {
        "table": text, "target": text, "state": text, "generation": 1, "chunks": 3, "percent": None, "error": text,
        "remaining_seconds": None, "lag_bytes": None, "lag_seconds": None, "way_out": text,
        "not_copied_children": [text],
    }  # fmt: skip
    world.jobs[("evil", "ingest-status")] = [
        {"gateway": text, "paused": False, "position_name": text, "is_read": True, "retained_bytes": 1,
         "position": text,         "gap": text, "error": text, "waits_for": [text], "tables": [table]}
    ]  # fmt: skip
    world.chunks[text] = {"gateway": text, "table": text, "chunks": 3, "done": 1, "killed": [{"chunk": 1, "at": text}],
                          "runs": [{"state": text, "count": 3}]}  # fmt: skip


def _add_settings(world: World, text: str) -> None:
    world.alerts.append({"at": text, "kind": text, "pipeline": text, "text": text, "recovered_at": None})
    world.tokens.append(
        {"id": text, "name": text, "role": text, "pipelines": [text], "expires_at": text, "last_used_at": text}
    )
    world.faults.append({"file": text, "condition": text, "what": text, "remedy": text})
    world.schedules.extend([each | {"pipeline": text, "text": text, "timezone": text} for each in schedules()])
