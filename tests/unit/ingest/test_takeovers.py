"""Which snapshots are right after another server has taken the place of the one on which they were read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.foundation.files.local_storage import LocalStorage
from framework.ingest.copy_state import ReadRows
from framework.ingest.generations import begin_generations
from framework.ingest.operations import Operations
from framework.ingest.state import GatewayStore, SnapshotGeneration, TableState
from framework.ingest.takeovers import open_servers
from framework.sources.databases.chunks import ChunkKind, PlanBasis, advance
from framework.sources.databases.position import Position
from framework.testing.manual_clock import ManualClock
from tests.support.fake_source import FakeSource
from tests.unit.ingest.test_operations import BANK

ORDERS = BANK.tables[0]
SHOP = replace(BANK, scheme="mysql", tables=(replace(ORDERS, identity="7"),))


class World:
    """An ingestion of one table, whose server and flows do what a test says."""

    def __init__(self, folder: Path, swap: pytest.MonkeyPatch) -> None:
        self.storage = LocalStorage(str(folder))
        self.end = Position(order=100, text="", log="one")
        self.gap: str | None = None
        swap.setattr(FakeSource, "settled_position", lambda *_: self.end)
        swap.setattr("framework.ingest.log_positions.open_gateway", FakeSource().open)
        swap.setattr("framework.ingest.takeovers.position_gap", lambda *_: self.gap)

    def update(self, scheme: str = "mysql") -> TableState:
        """Begin an update, and return the state of the table."""
        assert begin_generations([replace(SHOP, scheme=scheme)], self.storage, ManualClock()) == ()
        state = GatewayStore(self.storage).read(BANK.name)
        found = None if state is None else state.table(ORDERS.key)
        assert found is not None
        return found

    def snapshot(self, log: str, *, is_ended: bool = True) -> None:
        """Read the chunks of the current snapshot on a server."""
        generations = GenerationStore(self.storage)
        current = generations.current(ORDERS.target, ORDERS.snapshot_flow)
        if current is None:
            generations.begin(ORDERS.target, ORDERS.snapshot_flow, reason="first run")
        number = 1 if current is None else current.number
        basis = PlanBasis(kind=ChunkKind.WHOLE, source_identity=log, storage_id="", position=1)
        path = generations.path(ORDERS.target, ORDERS.snapshot_flow, number)
        offset = advance(basis, None, bounds=(), rows=1, finished=True).to_json()
        self.storage.write_text(f"{path}/offsets/0", f"v1\n{{}}\n{offset}")
        if is_ended:
            self.storage.write_text(f"{path}/commits/0", "v1\n{}")
            generations.complete(ORDERS.target, ORDERS.snapshot_flow, number)

    def changes(self, log: str, order: int) -> None:
        """Read the changes up to a position of a server."""
        generations = GenerationStore(self.storage)
        if generations.current(BANK.changes, BANK.changes) is None:
            generations.begin(BANK.changes, BANK.changes, reason="first run")
        path, batch = generations.path(BANK.changes, BANK.changes, 1), len(self.storage.list_names("offsets"))
        offset = json.dumps({"order": order, "text": "", "log": log})
        self.storage.write_text(f"{path}/offsets/{batch}", f"v1\n{{}}\n{offset}")
        self.storage.write_text(f"{path}/commits/{batch}", "v1\n{}")

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that must not be replaced during the update."""
        state = GatewayStore(self.storage).read(BANK.name)
        return () if state is None else open_servers(self.storage, state, {ORDERS.key})


@pytest.fixture
def world(tmp_path: Path, swap: pytest.MonkeyPatch) -> World:
    """The first update has begun on the server `one`."""
    found = World(tmp_path, swap)
    assert found.update().generations == ()
    assert found.servers == ()
    return found


def test_a_snapshot_counts_elsewhere_once_its_changes_are_read(world: World) -> None:
    """The first update after its end records a position, and the changes must be read up to there on that server."""
    world.snapshot("one")
    world.changes("one", 99)
    rows = ReadRows(checkpoint=1, log="one", position=100)
    assert (world.update().read_rows, world.servers) == (rows, ("one",))
    world.end = replace(world.end, order=200)
    assert (world.update().read_rows, world.servers) == (rows, ("one",))
    world.changes("one", 100)
    assert world.servers == ()  # also in the update that has read them
    world.end = Position(order=5000, text="", log="two")
    state = world.update()
    assert (state.read_rows, state.generations, world.servers) == (replace(rows, is_passed=True), (), ())
    world.changes("two", 5001)
    assert world.update() == state


@pytest.mark.parametrize("read", [("one", 99), ("two", 5000)])
@pytest.mark.parametrize("is_ended", [False, True])
def test_a_snapshot_of_another_server_begins_again(world: World, read: tuple[str, int], *, is_ended: bool) -> None:
    """Its changes were not read up to there, or on the successor only; the next update keeps the new one."""
    world.snapshot("one", is_ended=is_ended)
    world.changes("one", 50)
    world.update()
    world.changes(*read)
    world.end = Position(order=6000, text="", log="two")
    wanted = SnapshotGeneration(number=1, log_generation=0, position=6000, checkpoint=2, log="two")
    assert (world.update().generations, world.servers) == ((wanted,), ("two",))
    manifest = GenerationStore(world.storage).read(ORDERS.target, ORDERS.snapshot_flow)
    assert manifest[-1].reason == "snapshot 1 begins, because the table was read on another server"
    world.snapshot("two")
    assert world.update().generations == (wanted,)


def test_a_snapshot_that_ended_before_it_is_recorded_begins_again(world: World) -> None:
    """Nothing says up to where its changes must be read."""
    world.snapshot("one")
    world.changes("one", 10**9)
    world.end = Position(order=6000, text="", log="two")
    assert [each.position for each in world.update().generations] == [6000]


def test_a_position_of_another_server_is_taken_again(world: World) -> None:
    """Before a chunk is planned, too; a position that the changes have passed needs no server any more."""
    world.changes("one", 50)
    Operations(storage=world.storage).resync(SHOP, SHOP.tables[0], None)
    assert ([each.log for each in world.update().generations], world.servers) == (["one"], ("one",))
    world.end = Position(order=6000, text="", log="two")
    assert [(each.log, each.position) for each in world.update().generations] == [("one", 100), ("two", 6000)]
    world.changes("two", 6000)
    assert world.servers == ()
    world.end = Position(order=1, text="", log="three")
    assert [(each.log, each.position) for each in world.update().generations] == [("one", 100), ("", 6000)]


def test_a_gap_begins_nothing(world: World) -> None:
    """Its way out may lead back to the first server; then all is as before."""
    world.snapshot("one")
    world.changes("one", 50)
    world.gap, before, world.end = "gap", world.end, Position(order=6000, text="", log="two")
    assert world.update().generations == ()
    world.gap, world.end = None, before
    assert world.update().generations == ()


def test_a_database_whose_successors_share_its_positions_has_no_servers(
    tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """Nothing is compared or recorded."""
    world = World(tmp_path, swap)
    world.update("postgresql")
    world.snapshot("one")
    world.changes("one", 50)
    world.end = Position(order=6000, text="")
    state = world.update("postgresql")
    assert (state.generations, state.read_rows, world.servers) == ((), None, ())


def test_a_full_refresh_is_another_snapshot(world: World) -> None:
    """What was proven of the rows before it says nothing of its rows."""
    world.snapshot("one")
    world.changes("one", 100)
    world.update()
    assert world.update().read_rows == ReadRows(checkpoint=1, log="one", position=100, is_passed=True)
    GenerationStore(world.storage).begin(ORDERS.target, ORDERS.snapshot_flow, reason="full refresh")
    world.snapshot("one", is_ended=False)
    assert world.servers == ("one",)
    assert world.update().read_rows is None
