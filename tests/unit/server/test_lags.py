"""How far flows are behind, as the server measures it without Spark: as the session finds it, and never guessed."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.declare.specs import DatasetKind, DatasetSpec
from framework.foundation.processes import start_of_process
from framework.graph.stored_graph import GraphStore
from framework.operations.alerting.explaining import first_way
from framework.recovery.lag import read_lag
from framework.run.update.control.lock_holder import LockHolder
from framework.server.access.roles import Role
from framework.server.serving import Extras
from framework.server.signals.engine_memory import engine_memory
from framework.server.signals.routes import Signals
from framework.testing.manual_clock import START
from framework.views.lag import lag_json
from tests.support.alert_receivers import Received, webhook
from tests.support.fake_pipeline import name
from tests.support.hand_written_world import HandWrittenWorld, added
from tests.support.served_pipelines import eventually, served, write_spec
from tests.support.server_world import World, world_of

DAY = 86_400
LATE, READ, UNREADABLE = (f"main.shop.{each}" for each in ("late", "read", "unreadable"))


@pytest.fixture
def shop(tmp_path: Path) -> HandWrittenWorld:
    """`late` has not read a commit of 29 days ago, `read` has read all, and the source of `unreadable` is gone."""
    world = HandWrittenWorld(tmp_path / "shop", ("late", "read", "unreadable"))
    old = round((START.timestamp() - 29 * DAY) * 1000)
    world.commit("late", 1, {"commitInfo": {"timestamp": old}}, added("b", 2))
    (tmp_path / "shop" / "sources" / "read" / "_delta_log" / f"{1:020d}.json").unlink()
    (tmp_path / "shop" / "sources" / "unreadable").rename(tmp_path / "gone")
    folders = {name(each): world.store.path(_spec(each)) for each in ("late", "read", "unreadable")}
    GraphStore(world.storage, "shop").write(world.graph, folders)
    write_spec(tmp_path / "shop", more=f"storage: {world.storage.root}\n")
    return world


def _spec(table: str) -> DatasetSpec:
    return DatasetSpec(name=name(table), kind=DatasetKind.STREAMING_TABLE)


@pytest.fixture
def received() -> Iterator[Received]:
    """A webhook."""
    with webhook() as found:
        yield found


@pytest.fixture
def world(tmp_path: Path, shop: HandWrittenWorld) -> Iterator[World]:
    """A server over `shop`, and over a pipeline that never ran."""
    served(tmp_path / "new", "new")
    signals = Signals(first_way)
    extras = Extras(parts=signals.parts, routes=signals.routes)
    with world_of(tmp_path, clock=shop.clock, extras=extras) as made:
        yield made


def lags(world: World) -> dict[str, dict[str, Any]]:
    """The answer by flow."""
    return {each["flow"]: each for each in world.get("/pipelines/shop/lag", Role.VIEW)["flows"]}


def test_the_answer_is_that_of_the_session(world: World, shop: HandWrittenWorld) -> None:
    """Rows, bytes, age and health, and how long the source keeps what is unread; what is unknown is null."""
    found = lags(world)
    assert {each["flow"]: each for each in lag_json(read_lag(shop.graph, shop.store, clock=shop.clock))} == found
    assert {
        LATE: ("behind", 2, 10, 29.0 * DAY, 1.0 * DAY),
        READ: ("idle", 0, 0, 0.0, None),
        UNREADABLE: ("unknown", None, None, None, None),
    } == {
        flow: tuple(each[key] for key in ("health", "records", "bytes", "seconds", "lost_in_seconds"))
        for flow, each in found.items()
    }
    assert [] == world.get("/pipelines/new/lag", Role.VIEW)["flows"]


def test_the_list_of_pipelines_has_the_worst_flow(world: World) -> None:
    """Somebody looks at the list, and a moment later it has the lag; a sum with an unknown part is unknown."""

    def row(pipeline: str) -> Any:
        return next(each for each in world.get("/pipelines", Role.VIEW)["pipelines"] if each["name"] == pipeline)

    eventually(lambda: row("shop")["lag"])
    assert {"health": "behind", "seconds": None, "records": None, "bytes": None, "flows": 3} == row("shop")["lag"]
    assert (None, 0) == (row("new")["lag"], row("new")["quarantine_rows"])
    (Path(world.entry().storage.root) / "quarantine").mkdir()
    assert row("shop")["quarantine_rows"] is None


def test_metrics_have_what_is_known(world: World) -> None:
    """No sample stands for an unknown number."""
    text = world.ask("GET", "/metrics", role=Role.VIEW).text
    found = dict(
        line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(("sluice_flow_lag", "sluice_flow_gap"))
    )
    named = {key: f'{{flow="{flow}",pipeline="shop"}}' for key, flow in (("late", LATE), ("read", READ))}
    assert {
        f"sluice_flow_lag_rows{named['late']}": "2.0", f"sluice_flow_lag_rows{named['read']}": "0.0",
        f"sluice_flow_lag_bytes{named['late']}": "10.0", f"sluice_flow_lag_bytes{named['read']}": "0.0",
        f"sluice_flow_lag_seconds{named['late']}": "2.5056e+06",
        f"sluice_flow_lag_seconds{named['read']}": "0.0",
        f"sluice_flow_gap_seconds{named['late']}": "86400.0",
    } == found  # fmt: skip


def test_a_source_that_soon_deletes_unread_data_is_told_once(
    tmp_path: Path, shop: HandWrittenWorld, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the first way out; again only when it is over, after the flow has read it."""
    monkeypatch.setenv("SLUICE_SECRET_ALERTS_TEAM", f"http://127.0.0.1:{received.port}/")
    (tmp_path / "shop" / "alerts.yml").write_text("channels:\n  team: {webhook: '{{secrets/alerts/team}}'}\n")
    signals = Signals(first_way)
    with world_of(tmp_path, clock=shop.clock, extras=Extras(parts=signals.parts, routes=signals.routes)):
        eventually(lambda: received.bodies, lambda: shop.clock.sleep(1.0))
        (told,) = received.bodies
        assert ("raised", "losing_data", LATE) == tuple(told["sluice"][key] for key in ("event", "kind", "subject"))
        assert f"The source of {LATE} may delete changes in " in told["sluice"]["message"]
        assert "Start an update now: `sluice run`." == told["sluice"]["way"]
        log = tmp_path / "shop" / "sources" / "late" / "_delta_log"
        (log / f"{1:020d}.json").unlink()
        eventually(lambda: len(received.bodies) == 2, lambda: shop.clock.sleep(1.0))
        assert "recovered" == received.bodies[1]["sluice"]["event"]


def test_the_memory_of_an_engine_is_that_of_its_processes() -> None:
    """Known for a process of this machine; a process that has ended, or of another machine, has none."""
    here = LockHolder(host=socket.gethostname(), pid=os.getpid(), update_id="u", since="")
    found = engine_memory(here)
    assert found is not None
    assert 10_000_000 < found < 10_000_000_000
    twice = engine_memory(replace(here, jvm=os.getpid(), jvm_started=start_of_process(os.getpid())))
    assert twice is not None
    assert twice > 1.5 * found
    assert [None, None, None] == [
        engine_memory(each) for each in (None, replace(here, host="elsewhere"), replace(here, pid=2**22 + 1))
    ]
