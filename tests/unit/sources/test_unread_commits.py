"""A flow that reads some partitions of a Delta table is skipped only if no unread commit concerns it."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from framework.foundation.files.storage import LocalStorage
from framework.sources.delta import unread
from framework.sources.delta.source import DeltaSource, table_source
from framework.sources.kinds import is_drained
from framework.sources.port import ColumnType, ColumnValues, SourcePosition, SourceReference

DAY = 86_400_000
_FIELDS = {"t": "string", "n": "integer", "day": "date", "flag": "boolean", "price": "decimal(9,2)", "other": "string"}


@dataclass(kw_only=True)
class Table:
    """A Delta table made by hand, whose commits are a second apart."""

    folder: pathlib.Path
    id: str = "t-1"
    version: int = -1
    now: int = 1_000_000_000_000
    metadata: dict[str, Any] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    source: DeltaSource = field(default_factory=DeltaSource)

    @property
    def path(self) -> str:
        """The table's path."""
        return str(self.folder / "table")

    @property
    def storage(self) -> LocalStorage:
        """A storage that records the commits that are read."""
        table = self

        class Recording(LocalStorage):
            def read_text(self, path: str) -> str | None:
                text = super().read_text(path)
                if text is not None and path.endswith(".json"):
                    table.read.append(pathlib.Path(path).name)
                return text

        return Recording(str(self.folder))

    def commit(self, *actions: dict[str, Any], seconds: float = 1) -> None:
        """Write a commit."""
        self.version, self.now = self.version + 1, self.now + round(seconds * 1000)
        information = {"commitInfo": {"timestamp": self.now, "operation": "WRITE"}}
        text = "".join(f"{json.dumps(action)}\n" for action in (information, *actions))
        self.storage.write_text(f"{self.path}/_delta_log/{self.version:020d}.json", text)
        checksum = json.dumps({"metadata": self.metadata})
        self.storage.write_text(f"{self.path}/_delta_log/{self.version:020d}.crc", checksum)

    def create(self, *partitions: str, mapped: bool = False, retention: str | None = None) -> None:
        """Write the first commit, with all columns of the test."""
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": _mapping(name) if mapped else {}}
            for name, kind in _FIELDS.items()
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        self.metadata = {"id": self.id, "schemaString": schema, "partitionColumns": list(partitions)}
        self.metadata["configuration"] = {"delta.logRetentionDuration": retention} if retention else {}
        self.commit({"metaData": self.metadata})

    def skips(self, *only: ColumnValues, since: int, checkpoint: str = "c") -> bool:
        """Whether a flow with these conditions, which has read to a version, is skipped."""
        return self.drained((table_source(self.path, only),), (self.offset(since),), checkpoint)

    def offset(self, version: int) -> str:
        """An offset at the begin of a version, as Delta writes it."""
        found = {"sourceVersion": 1, "reservoirId": self.id, "reservoirVersion": version, "index": -100}
        return json.dumps({**found, "isStartingVersion": False})

    def drained(self, sources: tuple[SourceReference, ...], offsets: tuple[str, ...], checkpoint: str = "c") -> bool:
        """The answer of the source."""
        position = SourcePosition(
            storage=self.storage, checkpoint=checkpoint, sources=sources, offsets=offsets, source_count=len(offsets)
        )
        as_stored = replace(position, storage=LocalStorage(str(self.folder)))
        DeltaSource().remember(as_stored)  # as after the run that has read to it
        return self.source.is_drained(position) is True


def _mapping(name: str) -> dict[str, Any]:
    return {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": f"col-{name}"}


def add(**values: str | None) -> dict[str, Any]:
    """A file in a partition."""
    return {"add": {"path": "x", "partitionValues": values, "dataChange": True, "size": 1}}


COMPACTED = {"add": {"path": "x", "partitionValues": {"t": "one"}, "dataChange": False, "size": 1}}


def one(column: str, *values: str | None, kind: ColumnType = ColumnType.STRING) -> ColumnValues:
    """A condition on a column."""
    return ColumnValues(column=column, type=kind, values=values)


T1 = one("t", "one")


@pytest.fixture
def table(tmp_path: pathlib.Path) -> Table:
    """A table partitioned by the text `t`."""
    table = Table(folder=tmp_path)
    table.create("t")
    return table


def test_only_commits_to_its_partitions_concern_a_flow(table: Table) -> None:
    """Files of other partitions and files without new rows are passed over; one file of its own is not."""
    answers = []
    for actions in (
        [add(t="two"), add(t="three")],
        [COMPACTED, {"remove": {"path": "y", "dataChange": False}}],
        [{"txn": {"appId": "a", "version": 1}}],
        [add(t="two"), add(t="one")],
    ):
        table.commit(*actions)
        answers.append(table.skips(T1, since=1))
    assert answers == [True, True, True, False]
    assert table.skips(T1, since=table.version + 1)


@pytest.mark.parametrize(
    "action",
    [
        {"remove": {"path": "y", "partitionValues": {"t": "two"}, "dataChange": True}},
        {"remove": {"path": "y"}},
        {"cdc": {"path": "y", "partitionValues": {"t": "two"}, "dataChange": False}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}},
        {"add": {"path": "x", "dataChange": True}},
        {"add": {"path": "x", "partitionValues": {}, "dataChange": True}},
        {"add": {"path": "x", "partitionValues": {"T": "two"}, "dataChange": True}},
        {"add": {"path": "x", "partitionValues": {"t": 2}, "dataChange": True}},
        {"novelty": {}},
        {},
    ],
    ids=str,
)
def test_a_commit_that_does_more_than_add_files_concerns_every_flow(table: Table, action: dict[str, Any]) -> None:
    """Removed rows, change feeds, protocols, and actions of an unknown form start the flow."""
    table.commit(action)
    assert not table.skips(T1, since=1)


def test_a_change_of_the_metadata_concerns_every_flow(table: Table) -> None:
    """A changed schema or property starts the flow; commits after it don't."""
    table.create("t")
    table.commit(add(t="two"))
    assert (table.skips(T1, since=1), table.skips(T1, since=2)) == (False, True)


@pytest.mark.parametrize(
    ("partition", "condition", "value", "skipped"),
    [
        ("n", one("n", "17", kind=ColumnType.INTEGER), "18", True),
        ("n", one("n", "17", kind=ColumnType.INTEGER), "017", False),
        ("n", one("n", "17", kind=ColumnType.INTEGER), "17.0", False),
        ("n", one("n", "17", kind=ColumnType.INTEGER), None, True),
        ("n", one("n", None, kind=ColumnType.INTEGER), None, False),
        ("n", one("n", "17"), "18", False),
        ("day", one("day", "2026-01-02", kind=ColumnType.DATE), "2026-01-03", True),
        ("day", one("day", "2026-01-02", kind=ColumnType.DATE), "2026-01-02", False),
        ("day", one("day", "2026-01-02", kind=ColumnType.DATE), "+12026-01-02", False),
        ("flag", one("flag", "true", kind=ColumnType.BOOLEAN), "false", True),
        ("flag", one("flag", "true", kind=ColumnType.BOOLEAN), "TRUE", False),
        ("t", one("T", "a", "b"), "c", True),
        ("t", one("T", "a", "b"), "b", False),
        ("t", one("t", "a"), "", True),
        ("t", one("t", None), "", False),
        ("t", one("t", "ä/%20=\n'\\"), "ä/%20=\n'\\", False),
        ("t", one("other", "a"), "b", False),
        ("price", one("price", "1.50"), "2.50", False),
    ],
)
def test_values_are_compared_by_type(
    tmp_path: pathlib.Path, partition: str, condition: ColumnValues, value: str | None, *, skipped: bool
) -> None:
    """A value in an unknown format, of another type, or of a column that is no partition column starts the flow."""
    table = Table(folder=tmp_path)
    table.create(partition)
    table.commit(add(**{partition: value}))
    assert table.skips(condition, since=1) is skipped


def test_a_mapped_column_is_found_by_its_physical_name(tmp_path: pathlib.Path) -> None:
    """Column mapping gives the partition values of the log other names."""
    table = Table(folder=tmp_path)
    table.create("t", mapped=True)
    table.commit(add(**{"col-t": "two"}))
    answers = [table.skips(T1, since=1)]
    table.commit(add(**{"col-t": "one"}))
    assert [*answers, table.skips(T1, since=1)] == [True, False]


def test_of_two_conditions_each_must_have_files(tmp_path: pathlib.Path) -> None:
    """A flow with two partition columns is skipped if one of them has no file of interest."""
    table = Table(folder=tmp_path)
    table.create("t", "n")
    seventeen = one("n", "17", kind=ColumnType.INTEGER)
    table.commit(add(t="one", n="18"))
    answers = [table.skips(T1, seventeen, since=1)]
    table.commit(add(t="one", n="17"))
    assert [*answers, table.skips(T1, seventeen, since=1)] == [True, False]


def test_a_table_that_two_streams_read_has_no_conditions(table: Table) -> None:
    """Offsets of one table don't say which conditions they belong to."""
    table.commit(add(t="three"))
    both = (table_source(table.path, (T1,)), table_source(table.path, (one("t", "two"),)))
    assert not table.drained(both, (table.offset(1), table.offset(1)))
    assert not table.drained(both[:1], (table.offset(1), table.offset(1)))
    assert table.drained(both[:1] * 2, (table.offset(1),))


def test_an_unread_commit_that_is_gone_starts_the_flow(table: Table) -> None:
    """A cleaned log, another table at the path, and an offset in the initial snapshot are never skipped."""
    for _ in range(3):
        table.commit(add(t="two"))
    offset = json.loads(table.offset(2))
    source = (table_source(table.path, (T1,)),)
    assert table.skips(T1, since=2)
    assert not table.drained(source, (json.dumps({**offset, "reservoirId": "t-0"}),))
    assert not table.drained(source, (json.dumps({**offset, "isStartingVersion": True}),))
    table.storage.delete_tree(f"{table.path}/_delta_log/{1:020d}.json")
    table.source = DeltaSource()
    assert (table.skips(T1, since=1), table.skips(T1, since=2)) == (False, True)


def test_a_table_that_is_replaced_is_read_again(table: Table) -> None:
    """A new table at the path has an id of its own, whatever its versions are."""
    table.commit(add(t="two"))
    before = table.skips(T1, since=1)
    table.storage.delete_tree(table.path)
    table.id, table.version = "t-2", -1
    table.create("t")
    table.commit(add(t="one"))
    table.commit(add(t="two"))
    assert (before, table.skips(T1, since=1), table.skips(T1, since=2)) == (True, False, True)


def test_a_flow_that_is_far_behind_runs(table: Table, swap: pytest.MonkeyPatch) -> None:
    """Too many commits or files, or a quarter of the log's retention, take a flow to the end of the log."""
    swap.setattr(unread, "MOST_COMMITS", 20)
    for _ in range(25):
        table.commit(add(t="two"))
    last = table.version
    assert (table.skips(T1, since=last - 9), table.skips(T1, since=last - 20)) == (True, False)
    # Flows that were created together are not started together.
    starts = {name: table.skips(T1, since=last - 14, checkpoint=name) for name in map(str, range(20))}
    assert set(starts.values()) == {True, False}
    swap.setattr(unread, "MOST_FILES", 12)
    table.commit(*(add(t="two") for _ in range(6)))
    assert (table.skips(T1, since=last + 1), table.skips(T1, since=last - 9)) == (True, False)


@pytest.mark.parametrize(
    ("retention", "days", "skipped"),
    [
        (None, 3, True),
        (None, 8, False),
        ("interval 2 weeks", 1.5, True),
        ("interval 2 weeks", 4, False),
        ("interval 12 hours", 0.2, False),
        ("interval 1 week 2 days", 0, False),
    ],
)
def test_a_position_is_never_as_old_as_the_log(
    tmp_path: pathlib.Path, retention: str | None, days: float, *, skipped: bool
) -> None:
    """The limit is a part of the log's retention; with a retention that can't be read, the flow runs."""
    table = Table(folder=tmp_path)
    table.create("t", retention=retention)
    table.commit(add(t="two"))
    table.commit(add(t="two"), seconds=days * DAY / 1000)
    assert table.skips(T1, since=1) is skipped


def begins_with_nothing(table: Table, *only: ColumnValues, checkpoint: str = "c", from_start: bool = True) -> bool:
    """Whether a flow without a position is skipped."""
    return is_drained(table.storage, checkpoint, (table_source(table.path, only, from_start=from_start),)) is True


def test_a_flow_begins_with_the_first_file_of_its_own(table: Table) -> None:
    """Before, there is nothing to read: files of other partitions, removals and properties change no row of its own."""
    answers = [begins_with_nothing(table, T1)]
    for actions in (
        [add(t="two"), {"remove": {"path": "y", "partitionValues": {"t": "two"}, "dataChange": True}}],
        [COMPACTED, {"cdc": {"path": "y", "partitionValues": {"t": "one"}, "dataChange": False}}],
        [{"metaData": table.metadata}, {"protocol": {"minReaderVersion": 3}}],
        [add(t="one")],
        [{"remove": {"path": "x", "partitionValues": {"t": "one"}, "dataChange": True}}],
    ):
        table.commit(*actions)
        answers.append(begins_with_nothing(table, T1))
    assert answers == [True, True, True, True, False, False]


@pytest.mark.parametrize("action", [{"novelty": {}}, {}, add(), {"add": {"path": "x", "dataChange": True}}], ids=str)
def test_a_flow_begins_if_a_commit_can_not_be_read(table: Table, action: dict[str, Any]) -> None:
    """An action in an unknown form may add a row."""
    table.commit(action)
    assert not begins_with_nothing(table, T1)


def test_a_flow_begins_where_its_rows_may_depend_on_the_time(table: Table, tmp_path: pathlib.Path) -> None:
    """With a start of its own, without conditions, with a planned batch, or without the whole log, it is started."""
    table.commit(add(t="two"))
    table.storage.write_text(str(tmp_path / "begun" / "offsets" / "0"), "v1\n{}\n-\n")
    answers = [
        begins_with_nothing(table, T1),
        begins_with_nothing(table, T1, from_start=False),
        begins_with_nothing(table),
        begins_with_nothing(table, one("other", "a")),
        begins_with_nothing(table, T1, checkpoint=str(tmp_path / "begun")),
        is_drained(table.storage, "c", ()),
    ]
    assert answers == [True, False, False, False, False, False]
    other = Table(folder=tmp_path / "other")
    other.create("t")
    other.commit(add(t="two"))
    (pathlib.Path(other.path) / "_delta_log" / f"{0:020d}.json").unlink()
    assert not begins_with_nothing(other, T1)


def test_all_flows_together_read_each_commit_once(table: Table) -> None:
    """200 flows read an unread commit once, whatever their conditions; each looks at the last one that it has read."""
    for _ in range(5):
        table.commit(add(t="two"))
    skipped = [table.skips(one("t", f"table {n}"), since=2, checkpoint=str(n)) for n in range(200)]
    table.commit(add(t="table 7"))
    moved = [n for n in range(200) if not table.skips(one("t", f"table {n}"), since=2, checkpoint=str(n))]
    assert (all(skipped), moved) == (True, [7])
    read = Counter(table.read)
    found = {version: read[f"{version:020d}.json"] for version in range(1, 7)}
    # The newest commits are also what the log at this path is known by when its folder was written to.
    assert found == {1: 399, 2: 1, 3: 1, 4: 1, 5: 3, 6: 2}
