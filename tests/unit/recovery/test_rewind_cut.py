"""The versions to which a rewind takes tables, from Delta logs and checkpoints that no Spark ever wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from framework.checkpoints.manifest import BY_LOSS
from framework.declare.specs import DatasetSpec
from framework.foundation.errors import UserError
from framework.recovery.rewind.consistent_versions import check_began, check_clock
from framework.recovery.rewind.decision import Decision
from framework.recovery.rewind.point_in_time import PointInTime
from framework.recovery.rewind.tables import auxiliary_at
from tests.support.fake_pipeline import name
from tests.support.rewind_world import ADDED, COMPACTED, START_MS, TABLE, World, taken


@pytest.fixture
def pair(tmp_path: Path) -> World:
    """A table and a reader of it."""
    return World(tmp_path, "orders", "loud")


def test_a_reader_that_was_done_stays_where_it_was(pair: World) -> None:
    """Both tables go back to the newest version of the time; compaction after the last read is no gap."""
    pair.batch("orders", 0)
    pair.batch("loud", 0, orders=2)
    pair.commit("orders", COMPACTED)
    then = pair.now_ms()
    pair.batch("orders", 1)
    pair.batch("loud", 1, orders=4)
    assert pair.versions_at(then) == {"orders": 2, "loud": 1}
    assert pair.position("loud", then) == (1, 0)


def test_a_table_goes_back_to_what_its_reader_had_read(pair: World) -> None:
    """A reader that was behind can't express the rest in versions, so the table goes back further."""
    pair.batch("orders", 0)
    pair.batch("loud", 0, orders=2)
    pair.batch("orders", 1)
    then = pair.now_ms()
    pair.batch("loud", 1, orders=3)
    pair.batch("orders", 2)
    assert pair.versions_at(then) == {"orders": 1, "loud": 1}
    assert pair.position("orders", then) == (1, 0)


def test_a_reader_in_the_middle_of_a_commit_goes_back_to_the_batch_before(pair: World) -> None:
    """Its own table goes back then, and with it the table that it reads."""
    pair.batch("orders", 0)
    pair.batch("loud", 0, orders=2)
    pair.batch("orders", 1)
    path = pair.generations.path(name("loud"), name("loud"), 1)
    pair.batch("loud", 1, orders=2)
    middle = (pair.storage.read_text(f"{path}/offsets/1") or "").replace('"index": -1', '"index": 3')
    pair.storage.write_text(f"{path}/offsets/1", middle)
    then = pair.now_ms()
    pair.batch("orders", 2)
    assert pair.versions_at(then) == {"orders": 1, "loud": 1}


def test_batches_without_rows_count_if_they_had_run(pair: World) -> None:
    """A reader has read on by them; those that ran later, such as of code that drops all rows, run again."""
    pair.batch("orders", 0)
    pair.batch("loud", 0, orders=2)
    pair.batch("orders", 1)
    pair.empty_batch("loud", 1, orders=3)
    then = pair.now_ms()
    pair.batch("orders", 2)
    pair.empty_batch("loud", 2, orders=4)
    assert pair.versions_at(then) == {"orders": 2, "loud": 1}
    assert pair.position("loud", then) == (1, 1)


def test_two_readers_meet_where_both_have_been(tmp_path: Path) -> None:
    """Of two readers with different batches, all go back to the last version at which both had ended a batch."""
    world = World(tmp_path, "orders", "loud", "quiet")
    world.batch("orders", 0)
    world.batch("loud", 0, orders=2)
    world.batch("quiet", 0, orders=2)
    world.batch("orders", 1)
    world.batch("quiet", 1, orders=3)
    world.batch("orders", 2)
    world.batch("loud", 1, orders=4)
    then = world.now_ms()
    world.batch("orders", 3)
    assert world.versions_at(then) == {"orders": 1, "loud": 1, "quiet": 1}


def test_a_generation_without_a_batch_counts_from_its_begin(pair: World) -> None:
    """After a reset the flow starts anew, also while the table has the batches of the generation before only."""
    pair.batch("orders", 0)
    before = pair.now_ms()
    pair.begin("orders", start='{"a":"earliest"}')
    after = pair.now_ms()
    pair.batch("orders", 0, generation=2)
    assert [pair.position("orders", time) for time in (before, after, pair.now_ms())] == [(1, 0), (2, None), (2, 0)]


def test_a_published_full_refresh_continues_after_its_last_batch(pair: World) -> None:
    """The table has no batch of it: its rows came in one commit."""
    pair.batch("orders", 0)
    number = pair.begin("orders", staged=True, fingerprint="rebuild 1")
    path = pair.generations.path(name("orders"), name("orders"), number)
    for batch in (0, 1):
        pair.storage.write_text(f"{path}/offsets/{batch}", 'v1\n{}\n{"logOffset":1}')
        pair.storage.write_text(f"{path}/commits/{batch}", "v1\n{}")
    pair.commit("orders", taken("sluice:shop:rebuild:main.shop.orders", 1), ADDED)
    pair.clock.sleep(1)
    pair.generations.promote(name("orders"), name("orders"), number)
    then = pair.now_ms()
    pair.batch("orders", 2, generation=number)
    assert pair.position("orders", then) == (number, 1)


def test_the_times_around_an_earlier_rewind_have_positions_of_their_own(pair: World) -> None:
    """Before, within and after a rewind, the table and the checkpoint that belong together are found."""
    pair.batch("orders", 0)
    pair.batch("orders", 1)
    bad = pair.now_ms()
    mark = {"sluice": {"rewind": "r1", "flows": [str(name("orders"))]}}
    pair.commit("orders", {"commitInfo": {"userMetadata": json.dumps(mark)}}, ADDED)
    within = pair.now_ms()
    pair.clock.sleep(1)
    pair.generations.adopt(name("orders"), name("orders"), 2, reason="", start=None, after_batch=0)
    pair.storage.write_text(
        f"{pair.generations.path(name('orders'), name('orders'), 2)}/metadata", json.dumps({"id": "orders 2"})
    )
    after = pair.now_ms()
    pair.batch("orders", 1, generation=2)
    found = {time: (pair.versions_at(time)["orders"], pair.position("orders", time)) for time in (bad, within, after)}
    assert found == {bad: (2, (1, 1)), within: (2, (1, 1)), after: (3, (2, 0))}


def test_the_auxiliary_table_has_the_batches_of_its_target(tmp_path: Path) -> None:
    """It goes back to the last batch in the target, and the target to before a batch that was interrupted."""
    world = World(tmp_path, "people", cdc=True)
    first = "sluice:shop:main.shop.people:1"

    def apply(application: str, number: int, *, target: bool = True) -> None:
        mark = json.dumps({"sluice": {"batch": [application, number]}})
        world.commit("people aux", {"commitInfo": {"userMetadata": mark}}, ADDED)
        if target:
            world.commit("people", taken(application, number), ADDED)

    world.commit("people aux", {"metaData": {"id": "aux"}})
    apply(first, 0)
    one = world.now_ms()
    apply(first, 1, target=False)
    interrupted = world.now_ms()
    apply("other", 0)
    mixed = world.now_ms()
    apply(first, 1)
    apply(first, 2)

    def found(time: int) -> tuple[int, int | None]:
        cut = world.cut("people", at=time)
        moment = cut.moment_of(name("people"))
        return moment.version, auxiliary_at(cut.tables[name("people")], moment).version

    assert [found(time) for time in (one, interrupted, mixed)] == [(1, 1), (1, 1), (1, 1)]
    assert found(world.now_ms()) == (4, 5)


def test_a_table_that_is_younger_gets_no_rows(pair: World) -> None:
    """A table that was created later goes back to its first version; one whose log begins later is refused."""
    pair.batch("loud", 0)
    assert pair.versions_at(START_MS) == {"orders": 0, "loud": 0}
    (Path(pair.store.path(pair.graph.datasets[1].spec)) / "_delta_log" / f"{0:020d}.json").unlink()
    assert pair.cut("orders", at=START_MS).moment_of(name("orders")).version == 0
    with pytest.raises(UserError, match="REWIND_TOO_EARLY"):
        pair.cut("loud", at=START_MS)


def test_a_flow_of_a_table_that_was_deleted_is_at_the_start_of_the_next_one(tmp_path: Path) -> None:
    """Also at a moment between the creation of that one and the flow's new checkpoint."""
    world = World(tmp_path, "orders")
    path = world.generations.path(name("orders"), name("orders"), 1)
    world.storage.write_text(f"{path}/commits/0", "v1\n{}")
    os.utime(f"{path}/commits/0", (START_MS / 1000, START_MS / 1000))
    world.generations.retire(name("orders"), name("orders"), BY_LOSS)
    then = world.now_ms()
    world.begin("orders")
    world.batch("orders", 0, generation=2)
    assert world.position("orders", then) == (None, None)
    assert world.position("orders", world.now_ms()) == (2, 0)


def test_times_at_which_the_clock_was_set_back_are_refused(pair: World) -> None:
    """An update while it was an hour ahead, or after it was corrected, or a time in between has unknown commits."""
    clock, hour = pair.clock, 3600
    clock.sleep(hour)
    ahead = pair.now_ms()
    for number in (0, 1):
        pair.batch("orders", number)
    clock.sleep(-hour)
    pair.batch("orders", 2)
    correct = pair.now_ms()
    clock.sleep(2 * hour)
    pair.batch("orders", 3)
    tables = pair.cut().tables.values()
    found = {}
    for what, time, begun in (
        ("update ahead", ahead + 5000, ahead - 1000), ("update after", correct + 500, correct - 500),
        ("time between", correct + 60_000, None), ("time before", START_MS + 2500, None),
        ("update long after", pair.now_ms(), pair.now_ms() - 5000),
    ):  # fmt: skip
        try:
            check_clock(tables, PointInTime(request="then", text="then", time_ms=time, begun_ms=begun))
        except UserError as error:
            found[what] = error.condition
    assert found == dict.fromkeys(("update ahead", "update after", "time between"), "REWIND_CLOCK_SET_BACK")
    moment = PointInTime(request="then", text="then", time_ms=correct + 60_000)
    with pytest.raises(UserError, match="REWIND_CLOCK_SET_BACK"):
        Decision(graph=pair.graph, store=pair.store, moment=moment).plan([name("loud"), name("orders")])


def copied_without_times(world: World) -> None:
    """The commits of the orders get new times, one after the other."""
    world.clock.sleep(3600)
    log = Path(world.store.path(DatasetSpec(name=name("orders"), kind=TABLE)), "_delta_log")
    for file in sorted(log.glob("*.json")):
        world.clock.sleep(1)
        os.utime(file, (world.now_ms() / 1000, world.now_ms() / 1000))


def test_times_that_a_copy_has_lost_are_refused(tmp_path: Path) -> None:
    """A commit whose file is later than the time, and whose writer began it before, may have happened or not."""
    world, began = World(tmp_path, "orders"), []
    for number in (0, 1):
        world.clock.sleep(60)
        began.append(world.now_ms())
        world.commit("orders", {"commitInfo": {"timestamp": began[-1]}}, taken("orders 1", number), ADDED)
    before = world.now_ms()
    copied_without_times(world)
    # Later commits of rows that stay have no part in it: such as an OPTIMIZE that ends after the time.
    world.commit("orders", {"commitInfo": {"timestamp": before}})
    found = {}
    times = (began[0] - 1, began[0] + 1, before, world.now_ms() - 1500, world.now_ms())
    for time in times:
        moment = PointInTime(request="then", text="then", time_ms=time)
        try:
            check_clock(world.cut().tables.values(), moment)
        except UserError as error:
            found[times.index(time)] = (error.condition, error.fields["version"])
    assert found == dict.fromkeys((1, 2), ("REWIND_FILES_MISDATED", 1)) | {3: ("REWIND_FILES_MISDATED", 2)}


def test_a_copy_without_times_has_the_generation_that_began_last(tmp_path: Path) -> None:
    """A flow that was reset and has written nothing since is not in the generation of the last rows of its table."""
    world = World(tmp_path, "orders")
    world.batch("orders", 0)
    world.commit("orders", {"commitInfo": {"timestamp": world.now_ms()}}, taken("orders 1", 1), ADDED)
    world.begin("orders")
    copied_without_times(world)
    assert world.position("orders", world.now_ms()) == (2, None)


def test_nothing_goes_back_to_before_all_tables(pair: World) -> None:
    """A time before the first version of every table is refused, with the first time of the oldest one."""
    tables = pair.cut().tables.values()
    for time, is_refused in ((START_MS, True), (START_MS + 2000, False)):
        moment = PointInTime(request="then", text="then", time_ms=time)
        if is_refused:
            with pytest.raises(UserError, match=r"REWIND_TOO_EARLY.*main\.shop\.orders.*00:00:02\.000Z"):
                check_began(tables, moment)
        else:
            check_began(tables, moment)
