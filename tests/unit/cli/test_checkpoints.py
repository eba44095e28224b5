"""`sluice checkpoints` on a real store of generations."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.checkpoints.reset_requests import ResetRequests
from framework.checkpoints.rewinds import RewindStore, StoredRewind
from framework.foundation.clock import SystemClock
from framework.plan.request import UpdateRequest
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.record.reader import read_events
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.journal import Journal
from framework.run.update.lock import update_lock
from tests.support.fake_pipeline import FakePipeline, name

Sluice = Callable[..., Result]


@pytest.fixture
def store(pipeline: FakePipeline) -> GenerationStore:
    """A store in which the flow `load` is in its second generation and `changes` in its first."""
    store = GenerationStore(pipeline.storage)
    store.begin(name("orders"), name("load"), reason="first run")
    store.begin(name("orders"), name("load"), reason="full refresh requested")
    store.begin(name("orders"), name("changes"), reason="first run")
    return store


def states(store: GenerationStore, flow: str) -> dict[int, GenerationState]:
    """The states of a flow's generations by number."""
    return {each.number: each.state for each in store.read(name("orders"), name(flow))}


def test_list_has_a_row_for_each_generation(sluice: Sluice, store: GenerationStore) -> None:
    """A row per generation, by flow and number, with its state and its reason."""
    assert states(store, "load") == {1: GenerationState.KEPT, 2: GenerationState.CURRENT}
    rows = [line.split() for line in sluice("checkpoints", "list").stdout.splitlines()[2:]]
    assert [row[:5] for row in rows] == [
        ["orders", "changes", "1", "current", "0"],
        ["orders", "load", "1", "kept", "0"],
        ["orders", "load", "2", "current", "0"],
    ]
    assert rows[2][7:] == ["full", "refresh", "requested"]


def test_list_as_json_has_full_names_and_paths(sluice: Sluice, store: GenerationStore) -> None:
    """Scripts can read the path of each checkpoint."""
    found = json.loads(sluice("checkpoints", "list", "-o", "json").stdout)
    assert [(each["flow"], each["number"], each["state"]) for each in found] == [
        ("main.shop.changes", 1, "current"),
        ("main.shop.load", 1, "kept"),
        ("main.shop.load", 2, "current"),
    ]
    assert found[2]["path"] == store.path(name("orders"), name("load"), 2)


@pytest.mark.parametrize("flow", ["load", "shop.load", "main.shop.load", "LOAD"])
def test_reset_starts_a_generation_and_keeps_the_old_one(sluice: Sluice, store: GenerationStore, flow: str) -> None:
    """The last part of a flow's name is enough; other flows do not change."""
    result = sluice("checkpoints", "reset", flow)
    assert (result.exit_code, result.stdout) == (0, "main.shop.load starts generation 3 at the next update.\n")
    assert states(store, "load") == {1: GenerationState.KEPT, 2: GenerationState.KEPT, 3: GenerationState.CURRENT}
    assert states(store, "changes") == {1: GenerationState.CURRENT}


def test_reset_stores_where_the_flow_starts(sluice: Sluice, pipeline: FakePipeline, store: GenerationStore) -> None:
    """The starts are resolved for the flow's full name and kept in the new generation; an update after it has none."""
    assert sluice("checkpoints", "reset", "load", "--from", "raw:earliest", "--from", "x:latest").exit_code == 0
    assert ("starts_of", (name("load"), ("raw:earliest", "x:latest"))) in pipeline.calls
    assert [each.start for each in store.read(name("orders"), name("load"))] == [None, None, "raw:earliest\nx:latest"]


def test_rollback_restores_the_previous_generation(sluice: Sluice, store: GenerationStore) -> None:
    """A rollback undoes a reset; `--to` selects any kept generation."""
    sluice("checkpoints", "reset", "load")
    assert sluice("checkpoints", "rollback", "load").exit_code == 0
    assert states(store, "load") == {1: GenerationState.KEPT, 2: GenerationState.CURRENT, 3: GenerationState.KEPT}
    assert "generation 1 at" in sluice("checkpoints", "rollback", "load", "--to", "1").stdout
    assert states(store, "load")[1] is GenerationState.CURRENT


def test_resets_and_rollbacks_are_in_the_event_log(
    sluice: Sluice, pipeline: FakePipeline, store: GenerationStore
) -> None:
    """Both are user actions with the new generation."""
    assert states(store, "load")[2] is GenerationState.CURRENT
    sluice("checkpoints", "reset", "load")
    sluice("checkpoints", "rollback", "load")
    events = read_events(pipeline.storage, type="user_action")
    assert [event.details["user_action"]["action"] for event in events] == ["RESET_CHECKPOINT", "ROLLBACK"]
    assert "generation 3 begins" in events[0].message


@pytest.mark.parametrize(
    ("arguments", "condition", "says"),
    [
        (("reset", "laod"), "CHECKPOINT_FLOW_NOT_FOUND", "Did you mean main.shop.load?"),
        (("rollback", "changes"), "GENERATION_NOT_KEPT", "Kept generations: none"),
        (("rollback", "load", "--to", "7"), "GENERATION_NOT_KEPT", "Kept generations: 1"),
    ],
)
def test_an_impossible_request_is_a_user_error_with_a_hint(
    sluice: Sluice, store: GenerationStore, arguments: tuple[str, ...], condition: str, says: str
) -> None:
    """An unknown flow or generation changes nothing."""
    before = store.list_all()
    result = sluice("checkpoints", *arguments)
    assert result.exit_code == 2
    assert f"[{condition}]" in result.stderr
    assert says in result.stderr
    assert store.list_all() == before


def test_an_ambiguous_name_has_to_be_a_full_name(sluice: Sluice, store: GenerationStore) -> None:
    """Two flows of one name in two schemas are an error, and nothing changes."""
    other = name("load").__class__(catalog="main", schema="lab", table="load")
    store.begin(other, other, reason="first run")
    result = sluice("checkpoints", "reset", "load")
    assert result.exit_code == 2
    assert "[CHECKPOINT_FLOW_AMBIGUOUS]" in result.stderr
    assert sluice("checkpoints", "reset", "lab.load").exit_code == 0


def test_the_checkpoint_of_a_flow_that_moved_to_another_dataset_is_not_taken_for_its_own(
    sluice: Sluice, store: GenerationStore
) -> None:
    """Flows of one full name into two datasets are told apart by `--target`; without it, nothing changes."""
    store.begin(name("payments"), name("load"), reason="before the flow moved")
    before = store.list_all()
    for action in ("reset", "rollback"):
        result = sluice("checkpoints", action, "main.shop.load")
        assert result.exit_code == 2
        assert "[CHECKPOINT_FLOW_AMBIGUOUS]" in result.stderr
        assert "main.shop.load into main.shop.payments" in result.stderr
    assert store.list_all() == before
    assert sluice("checkpoints", "reset", "load", "--target", "payments").exit_code == 0
    changed = [manifest.dataset for manifest in store.list_all() if manifest not in before]
    assert changed == [name("payments")]


def test_nothing_is_changed_while_an_update_runs(
    sluice: Sluice, pipeline: FakePipeline, store: GenerationStore
) -> None:
    """The lock of a running update prevents a reset."""
    before = store.list_all()
    with update_lock(pipeline.storage, "running"):
        result = sluice("checkpoints", "reset", "load")
        assert result.exit_code == 1
        assert "[UPDATE_ALREADY_RUNNING]" in result.stderr
        # A continuous update resets the flow itself; a roll-back still needs its end.
        origin = Origin(pipeline_id="p", pipeline_name="p", update_id="running", host="h")
        with EventLog(pipeline.storage, origin) as log:
            Journal(log, continuous=True).created(UpdateRequest(continuous=True), UpdateIdentity.of())
        result = sluice("checkpoints", "reset", "load")
        assert (result.exit_code, "The update that runs resets main.shop.load" in result.stdout) == (0, True)
        assert sluice("checkpoints", "rollback", "load").exit_code == 1
    (asked,) = ResetRequests(pipeline.storage, SystemClock()).pending()
    assert asked.ends == 2
    assert (asked.dataset, asked.flow) == (name("orders"), name("load"))
    assert store.list_all() == before


def test_no_reset_waits_while_a_command_that_is_no_update_holds_the_lock(
    sluice: Sluice, pipeline: FakePipeline, store: GenerationStore
) -> None:
    """The last update was a continuous one and has ended; a rewind, replay or prune runs, or a rewind is unfinished."""
    before = store.list_all()
    with EventLog(pipeline.storage, Origin(pipeline_id="p", pipeline_name="p", update_id="ended", host="h")) as log:
        Journal(log, continuous=True).created(UpdateRequest(continuous=True), UpdateIdentity.of())
    with update_lock(pipeline.storage, "rewind"):
        assert "[UPDATE_ALREADY_RUNNING]" in sluice("checkpoints", "reset", "load").stderr
    rewind = StoredRewind(rewind_id="r", to="then", begun_at="now", user=None, why="", tables=(), flows=())
    RewindStore(pipeline.storage).write(rewind)
    with update_lock(pipeline.storage, "ended"):
        assert "[REWIND_UNFINISHED]" in sluice("checkpoints", "reset", "load").stderr
    assert (ResetRequests(pipeline.storage, SystemClock()).pending(), store.list_all()) == ((), before)
