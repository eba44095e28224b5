"""The server tells of failures once, and when they are over; answers have no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.foundation.files.local_storage import LocalStorage
from framework.operations.alerting.explaining import first_way
from framework.server.access.roles import Role
from framework.server.serving import Extras
from framework.server.signals.routes import Signals
from tests.support.alert_receivers import Received, webhook
from tests.support.recorded_updates import RecordedFlow, Recorder
from tests.support.served_pipelines import eventually, served
from tests.support.server_world import World, record_update, world_of

GOOD, BAD = "50000000-0000-4000-8000-000000000000", "60000000-0000-4000-8000-000000000000"


@pytest.fixture
def received() -> Iterator[Received]:
    """A webhook."""
    with webhook() as found:
        yield found


@pytest.fixture
def world(tmp_path: Path, received: Received, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A server over one pipeline, whose alerts go to the webhook."""
    served(tmp_path / "shop")
    monkeypatch.setenv("SLUICE_SECRET_ALERTS_TEAM", f"http://127.0.0.1:{received.port}/T0KEN-of-hook")
    (tmp_path / "shop" / "alerts.yml").write_text("channels:\n  team: {webhook: '{{secrets/alerts/team}}'}\n")
    signals = Signals(first_way)
    with world_of(tmp_path, extras=Extras(parts=signals.parts, routes=signals.routes)) as made:
        yield made


def storage_of(world: World) -> LocalStorage:
    """The storage of the pipeline."""
    found = world.entry().storage
    assert isinstance(found, LocalStorage)
    return found


def test_a_failure_is_told_with_its_way_out_and_its_end(world: World, received: Received) -> None:
    """One message when it fails, one when it has recovered; the API has both, and no secret."""
    record_update(storage_of(world), "shop", BAD, hours=1, rows=None)
    eventually(lambda: len(received.bodies) == 1)
    (alert,) = world.get("/alerts", Role.VIEW)["alerts"]
    assert ("failed", "shop", None) == (alert["kind"], alert["pipeline"], alert["recovered_at"])
    assert f"Update {BAD} is FAILED in main.default.orders." in received.bodies[0]["sluice"]["message"]
    assert "`sluice doctor main.default.orders` has all ways" in received.bodies[0]["sluice"]["way"]
    record_update(storage_of(world), "shop", GOOD, hours=2, rows=3)
    eventually(lambda: len(received.bodies) == 2)
    assert "recovered" == received.bodies[1]["sluice"]["event"]
    answer = world.get("/alerts", Role.VIEW)
    assert answer["alerts"][0]["recovered_at"] is not None
    assert [("team", "webhook", "{{secrets/alerts/team}}")] == [
        (each["name"], each["kind"], each["target"]) for each in answer["channels"]
    ]
    kept = [file.read_text() for file in (world.folder / "shop").rglob("*.json")]
    assert [] == [text for text in (str(answer), *kept, str(received.bodies)) if "T0KEN" in text]


def test_quarantined_rows_are_told_until_a_run_has_none(world: World, received: Received) -> None:
    """The rows of a whole run count, for the flow that has set them aside."""
    recorder = Recorder(storage=storage_of(world))
    recorder.update(BAD, RecordedFlow(name="load", metrics={"num_output_rows": 3, "num_quarantined_rows": 2}))
    eventually(lambda: len(received.bodies) == 1)
    assert "The last run of main.shop.load has set 2 rows aside." == received.bodies[0]["sluice"]["message"]
    recorder.update(GOOD, RecordedFlow(name="load", metrics={"num_output_rows": 3, "num_quarantined_rows": 0}))
    eventually(lambda: len(received.bodies) == 2)
    assert ("recovered", "quarantined") == tuple(received.bodies[1]["sluice"][each] for each in ("event", "kind"))


def test_a_wrong_file_is_a_fault_of_its_pipeline(world: World) -> None:
    """It is shown, and mended without a restart."""
    file = world.folder / "shop" / "alerts.yml"
    before = file.read_text()
    file.write_text("channels: {a: {webhook: hunter2}}\n")
    eventually(lambda: world.get("/alerts")["faults"])
    (fault,) = world.get("/alerts")["faults"]
    assert "hunter2" not in str(fault)
    file.write_text(before)
    eventually(lambda: not world.get("/alerts")["faults"])
