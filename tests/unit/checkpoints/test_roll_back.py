"""A roll-back is refused if it repeats rows, and only then."""

from __future__ import annotations

import json
import pathlib
from datetime import timedelta

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.roll_back import last_kept
from framework.foundation.errors import UserError
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.plan.state import TableKind
from framework.run.tables.table_record import StorageLayout, TableRecord, write_record
from framework.run.update.checkpoint_actions import roll_back_checkpoint
from framework.testing.manual_clock import START, ManualClock

TARGET = QualifiedName.parse("orders", catalog="main", schema="sales")
LOAD = QualifiedName.parse("load", catalog="main", schema="sales")


class Flow:
    """A flow that appends, whose checkpoint and target have what a test writes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.storage = LocalStorage(str(folder / "storage"))
        self.table = str(folder / "table")
        self.generations = GenerationStore(self.storage)
        self.versions = 0

    def begin(self) -> int:
        """Begin a generation, the first one or by a reset."""
        number = self.generations.begin(TARGET, LOAD, reason="").number
        path = self.generations.path(TARGET, LOAD, number)
        self.storage.write_text(f"{path}/metadata", json.dumps({"id": f"query {number}"}))
        return number

    def read(self, number: int, batch: int, *, ends: bool = True) -> None:
        """Run a batch of a generation; with `ends` false it dies before the checkpoint has it as committed."""
        path = self.generations.path(TARGET, LOAD, number)
        self.storage.write_text(f"{path}/offsets/{batch}", 'v1\n{}\n{"logOffset":1}')
        if ends:
            self.storage.write_text(f"{path}/commits/{batch}", "v1\n{}")

    def commit(self, *actions: object) -> None:
        """Commit to the table, which is recorded."""
        text = "".join(json.dumps(each) + "\n" for each in actions)
        self.storage.write_text(f"{self.table}/_delta_log/{self.versions:020d}.json", text)
        self.versions += 1
        record = TableRecord(
            dataset=TARGET, path=self.table, definition="", schema='{"fields": []}', pipeline="p",
            kind=TableKind.STREAMING_TABLE,
        )  # fmt: skip
        write_record(self.storage, StorageLayout(storage=self.storage), record)

    def roll_back(self, number: int | None = None, *, allow_repeats: bool = False) -> int | str:
        """Roll back; return the number of the generation, or those that have read since then."""
        try:
            return roll_back_checkpoint(self.storage, "p", "load", number, allow_repeats=allow_repeats)[1].number
        except UserError as error:
            if error.condition != "GENERATION_READ_SINCE":
                raise
            return str(error.fields["since"])


@pytest.fixture
def flow(tmp_path: pathlib.Path) -> Flow:
    """A flow without a checkpoint."""
    return Flow(tmp_path)


def test_a_roll_back_that_has_read_nothing_since_is_undone(flow: Flow) -> None:
    """Nothing repeats by going back to where the flow was before it; once it has read, it does."""
    flow.begin()
    flow.read(1, 0)
    flow.begin()
    flow.read(2, 0)
    assert flow.roll_back() == "2"
    assert flow.roll_back(1, allow_repeats=True) == 1
    assert flow.roll_back() == 2
    assert flow.roll_back(1, allow_repeats=True) == 1
    flow.read(1, 1)
    assert flow.roll_back() == "1"


def test_a_generation_that_read_before_its_last_roll_back_has_still_read(flow: Flow) -> None:
    """Going back and forth without reading does not hide what was read in between."""
    flow.begin()
    flow.read(1, 0)
    flow.begin()
    flow.read(2, 0)
    flow.begin()
    flow.read(3, 0)
    assert flow.roll_back(1, allow_repeats=True) == 1
    flow.read(1, 1)
    assert flow.roll_back(2, allow_repeats=True) == 2
    assert flow.roll_back(1) == 1
    assert flow.roll_back(3) == "1"
    assert flow.roll_back(2) == 2


def test_a_generation_that_has_read_nothing_would_read_everything_again(flow: Flow) -> None:
    """The roll-back passes over it; if it is named, rows that were read before it began would repeat as well."""
    flow.begin()
    flow.read(1, 0)
    flow.begin()
    flow.begin()
    assert flow.roll_back() == 1
    assert flow.roll_back(2) == "1"
    assert flow.roll_back(3) == "1"
    assert flow.roll_back(3, allow_repeats=True) == 3
    assert flow.roll_back() == 1


def test_the_open_batch_of_a_generation_counts_unless_the_table_does_not_have_it(flow: Flow) -> None:
    """A table has the transaction of each batch; a sink, and commits that have left the log, may have any."""
    flow.begin()
    flow.read(1, 0)
    flow.begin()
    flow.read(2, 0, ends=False)
    assert flow.roll_back() == "2"  # of a sink
    flow.commit({"metaData": {"id": "t"}})
    flow.commit({"txn": {"appId": "query 1", "version": 0}})
    assert flow.roll_back() == 1
    assert flow.roll_back(2) == 2
    flow.commit({"txn": {"appId": "query 2", "version": 0}})
    assert flow.roll_back() == "2"


def test_a_batch_may_be_in_a_commit_that_has_left_the_log(flow: Flow) -> None:
    """Then the roll-back is refused, as it is without a log."""
    flow.begin()
    flow.read(1, 0)
    flow.begin()
    flow.read(2, 0, ends=False)
    flow.versions = 7
    flow.commit({"txn": {"appId": "query 1", "version": 0}})
    assert flow.roll_back() == "2"


def test_a_complete_run_is_not_gone_back_to_after_the_flow_has_become_a_stream(flow: Flow) -> None:
    """A stream goes on at its position; only a flow that still runs once reads nothing again."""
    flow.begin()
    flow.read(1, 0)
    flow.generations.complete(TARGET, LOAD, 1)
    flow.begin()
    flow.read(2, 0)
    flow.generations.complete(TARGET, LOAD, 2)
    assert flow.roll_back() == 1
    assert flow.roll_back() == 2
    flow.begin()
    flow.read(3, 0)
    assert flow.roll_back(1) == "3"


def test_a_clock_that_is_set_back_hides_no_generation_that_has_read_since(flow: Flow) -> None:
    """Each generation is current since a later time than all before, whatever began it."""
    flow.begin()
    flow.read(1, 0)
    times = [START, START - timedelta(hours=1), START - timedelta(hours=2), START - timedelta(hours=3)]
    earlier = [GenerationStore(flow.storage, ManualClock(time)) for time in times]
    earlier[0].begin(TARGET, LOAD, reason="reset")
    flow.read(2, 0)
    assert flow.roll_back() == "2"
    earlier[1].begin(TARGET, LOAD, reason="full refresh", staged=True)
    earlier[1].promote(TARGET, LOAD, 3)
    earlier[2].restore(TARGET, LOAD, 1)
    earlier[3].adopt(TARGET, LOAD, 4, reason="rewound", start=None, after_batch=None)
    since = {each.number: each.current_since or "" for each in flow.generations.read(TARGET, LOAD)}
    assert sorted(since, key=lambda number: since[number]) == [2, 3, 1, 4]
    assert len(set(since.values())) == 4
    kept = last_kept(flow.generations.manifest(TARGET, LOAD), appends=False)
    assert kept is None  # all of them are undone by the rewind


def test_what_is_advised_instead_fits_the_target(flow: Flow) -> None:
    """A table can be rewound, a sink can't. The command names the target: a flow may have checkpoints of several."""
    flow.begin()
    flow.read(1, 0)
    flow.begin()
    flow.read(2, 0)

    def advice() -> str:
        with pytest.raises(UserError) as caught:
            roll_back_checkpoint(flow.storage, "p", "load")
        return str(caught.value)

    command = "`sluice checkpoints rollback main.sales.load --target main.sales.orders --to 1 --allow-repeats`"
    assert "rewind" not in advice()
    assert command in advice()
    flow.commit({"metaData": {"id": "t"}})
    assert "`sluice rewind --to TIME --dry-run`" in advice()
    assert command in advice()
    flow.generations.begin(QualifiedName.parse("other", catalog="main", schema="sales"), LOAD, reason="moved")
    assert roll_back_checkpoint(flow.storage, "p", "load", 1, target=str(TARGET), allow_repeats=True)[1].number == 1
