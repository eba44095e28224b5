"""Files that another release of Sluice has written: each kind is a named error, and stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql.types import StructType

from framework.checkpoints.backups import Backup, BackupStore
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.checkpoints.reset_requests import ResetRequest, ResetRequests
from framework.checkpoints.rewinds import RewindStore, StoredRewind
from framework.checkpoints.snapshots import SnapshotMark, SnapshotStore
from framework.checkpoints.table_marks import TableMark, read_mark, write_mark
from framework.demo.feeder import FEED_FILE, FEED_FORMAT
from framework.demo.project import prepare_folder
from framework.deploy.state.lock import put_in_queue, queued_fingerprint
from framework.deploy.state.state import new_state, read_state, write_state
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.graph.kept_analyses import KeptAnalysis, analyses_text, read_analyses
from framework.plan.state import TableKind
from framework.run.tables.left_tables import LeftTables
from framework.run.tables.storage_identity import StorageIdentity
from framework.run.tables.table_record import StorageLayout, TableRecord, read_record, recorded_names, write_record
from framework.run.tables.table_store import TableStore
from framework.run.update.control.lock_holder import LOCK_FILE
from framework.run.update.lease import Lease, LeaseTerms
from framework.run.update.lock import update_lock
from framework.sources.cloud_files.columns.schemas import FileSchema, schemas_of
from framework.sources.cloud_files.files.cleaning import CleaningState, forget_commits, record_removed, removed_files
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.folder_times import has_changed, keep_times
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.delta.read_commits import ReadCommits
from framework.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.deploy.api.workspace import Workspace

T = QualifiedName(catalog="main", schema="s", table="t")
CHECKPOINT = "checkpoints/t/f/1"
OPTIONS = parse_options("/in", {"cloudfiles.format": "json"}, has_schema=False, zone="UTC")
SCHEMA = FileSchema(data=StructType([]), partitions=StructType([]), rescued=None)
MARK = TableMark(generation=1, table_id="t-1", version=3)
SNAPSHOT = SnapshotMark(ordinal=1, version="7")
REWIND = StoredRewind(rewind_id="r", to="2026-01-01", begun_at="then", user=None, why="", tables=(), flows=())
BACKUP = Backup(dataset=T, number=1, made_at="then", table_id="t-1", version=1, auxiliary_version=None, rows=1)
RESET = ResetRequest(dataset=T, flow=T, start=None)

Use = Callable[[LocalStorage], object]


class Files:
    """A workspace that has its files in a storage."""

    def __init__(self, storage: LocalStorage) -> None:
        self.clock = ManualClock()
        self._storage = storage

    def read_file(self, path: str) -> str | None:
        """The text of a file."""
        return self._storage.read_text(path)

    def write_file(self, path: str, content: bytes) -> None:
        """Replace a file."""
        self._storage.write_text(path, content.decode())


def workspace(storage: LocalStorage) -> Workspace:
    """A workspace for the state of a deploy."""
    return cast("Workspace", Files(storage))


def record(storage: LocalStorage) -> None:
    """Record a table."""
    path = StorageLayout(storage=storage).table(T)
    found = TableRecord(dataset=T, path=path, definition="", schema="{}", pipeline="p", kind=TableKind.STREAMING_TABLE)
    write_record(storage, StorageLayout(storage=storage), found)


def killed(storage: LocalStorage) -> None:
    """Leave the lock file as an update that was killed leaves it."""
    with update_lock(storage, "u-1", clock=ManualClock()):
        text = storage.read_text(LOCK_FILE) or ""
    storage.write_text(LOCK_FILE, text)


def lock(storage: LocalStorage) -> None:
    """Run an update that does nothing."""
    with update_lock(storage, "u-2"):
        pass


def lease(storage: LocalStorage) -> None:
    """Take a lease and release it."""
    taken = Lease(storage, storage.path("lease"), LeaseTerms())
    assert taken.acquire({}) is None
    assert taken.release()


def left(storage: LocalStorage) -> LeftTables:
    """The tables that a prune may drop."""
    store = TableStore(pipeline="p", spark=cast("SparkSession", None), storage=storage)
    return LeftTables(graph=DataflowGraph(pipeline="p", datasets=(), flows=()), store=store)


def prune(storage: LocalStorage) -> None:
    """Leave the mark of a prune that was killed, of a table that is gone."""
    name = {"catalog": "main", "schema": "s", "table": "t"}
    mark = {"format": 1, "dataset": name, "path": "", "table_id": None, "storage": storage.root}
    storage.write_text(storage.path("prunes", f"{T}.json"), json.dumps(mark))


def begun_list(storage: LocalStorage) -> FileLog:
    """A list of files that has begun."""
    log = FileLog(storage, storage.path("files")).load()
    log.begin([])
    return log


def keep_and_settle(storage: LocalStorage) -> None:
    """Record columns that were inferred, as the first run of a flow does."""
    store = schemas_of(storage)
    store.keep(OPTIONS, SCHEMA)
    store.settle(OPTIONS)


KINDS: dict[str, tuple[Use, tuple[Use, ...]]] = {
    "manifest": (
        lambda at: GenerationStore(at).begin(T, T, reason="first run"),
        (lambda at: GenerationStore(at).list_all(), lambda at: GenerationStore(at).begin(T, T, reason="again")),
    ),
    "mark of a table": (
        lambda at: write_mark(at, T, T, MARK),
        (lambda at: read_mark(at, T, T), lambda at: write_mark(at, T, T, MARK)),
    ),
    "snapshots": (
        lambda at: SnapshotStore(at, CHECKPOINT).claim(SNAPSHOT),
        (lambda at: SnapshotStore(at, CHECKPOINT).read(), lambda at: SnapshotStore(at, CHECKPOINT).claim(SNAPSHOT)),
    ),
    "read commits": (
        lambda at: ReadCommits(tables={"t-1": {1: "c"}}).save(at, CHECKPOINT),
        (lambda at: ReadCommits.load(at, CHECKPOINT), lambda at: ReadCommits().save(at, CHECKPOINT)),
    ),
    "reset": (
        lambda at: ResetRequests(at, ManualClock()).ask(RESET),
        (
            lambda at: ResetRequests(at, ManualClock()).pending(),
            lambda at: ResetRequests(at, ManualClock()).ask(RESET),
        ),
    ),
    "rebuild": (
        lambda at: RebuildStore(at).write(T, Rebuild(number=1)),
        (lambda at: RebuildStore(at).read(T), lambda at: RebuildStore(at).give_up(T)),
    ),
    "rewind": (
        lambda at: RewindStore(at).write(REWIND),
        (lambda at: RewindStore(at).read(), lambda at: RewindStore(at).check_none()),
    ),
    "backup": (
        lambda at: BackupStore(at).write(BACKUP),
        (lambda at: BackupStore(at).list_all(), lambda at: BackupStore(at).next_number(T)),
    ),
    "record": (record, (lambda at: read_record(at, StorageLayout(storage=at), T),)),
    "identity": (StorageIdentity.settled, (StorageIdentity.of, StorageIdentity.settled)),
    "prune": (prune, (lambda at: left(at).check_marks(), lambda at: left(at).finish_begun())),
    "columns of files": (
        lambda at: schemas_of(at).record(OPTIONS, SCHEMA),
        (lambda at: schemas_of(at).read(OPTIONS), keep_and_settle),
    ),
    "list of files": (begun_list, (begun_list, lambda at: FileLog(at, at.path("files")).load())),
    "cleaned files": (
        lambda at: at.write_text(f"{CHECKPOINT}/cloud_files/0/cleaning", CleaningState().to_json()),
        (lambda at: forget_commits(at, CHECKPOINT, 0, after=1),),
    ),
    "removed files": (
        lambda at: record_removed(at, OPTIONS, "k", 1),
        (lambda at: removed_files(at, "/in"), lambda at: record_removed(at, OPTIONS, "k", 2)),
    ),
    "lease": (lease, (lease,)),
    "lock": (killed, (lock,)),
    "deploy state": (
        lambda at: write_state(workspace(at), "state", new_state()),
        (lambda at: read_state(workspace(at), "state"),),
    ),
    "deploy queue": (
        lambda at: put_in_queue(workspace(at), "state", "f", "u"),
        (lambda at: queued_fingerprint(workspace(at), "state"),),
    ),
    "demo": (
        lambda at: at.write_text(at.path("data", FEED_FILE), FEED_FORMAT.text({"months": 1})),
        (lambda at: prepare_folder(Path(at.root), 1),),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_release_is_a_named_error_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    """It is not taken for absent or damaged: whoever reads or replaces it gets the error, with path and versions."""
    storage, (write, uses) = LocalStorage(str(tmp_path)), KINDS[kind]
    write(storage)
    (path,) = (each for each in tmp_path.rglob("*") if each.is_file())
    text = path.read_text()
    assert json.loads(text)["format"] == 1
    path.write_text(text.replace('"format": 1', '"format": 999'))
    for use in uses:
        with pytest.raises(OperationError) as caught:
            use(storage)
        assert caught.value.condition == "STORED_FORMAT_UNKNOWN"
        assert {**caught.value.fields, "path": Path(storage.path(str(caught.value.fields["path"])))} == {
            "path": path, "found": 999, "reads": 1,
        }  # fmt: skip
        assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]
        assert path.read_text() == text.replace('"format": 1', '"format": 999')


def test_a_file_without_a_version_is_damaged(tmp_path: Path) -> None:
    """No release writes one."""
    storage = LocalStorage(str(tmp_path))
    record(storage)
    (path,) = (each for each in tmp_path.rglob("*.json") if recorded_names(storage, StorageLayout(storage=storage)))
    path.write_text(path.read_text().replace('"format": 1,', ""))
    with pytest.raises(OperationError, match="it has no format version") as caught:
        read_record(storage, StorageLayout(storage=storage), T)
    assert caught.value.condition == "STORED_FILE_DAMAGED"


def test_a_cache_of_another_release_is_empty(tmp_path: Path) -> None:
    """It may be deleted at any time, so it is replaced."""
    storage, folder = LocalStorage(str(tmp_path)), str(tmp_path / "in")
    text = analyses_text({T: KeptAnalysis(key="k", stored=None, content={})})
    assert list(read_analyses(text)) == [T]
    assert read_analyses(text.replace('"format": 1', '"format": 999')) == {}
    keep_times(storage, "hints", {folder: 1})
    assert has_changed(storage, "hints")
    (path,) = (each for each in tmp_path.rglob("*.json"))
    path.write_text(path.read_text().replace('"format": 1', '"format": 999'))
    assert not has_changed(storage, "hints")
