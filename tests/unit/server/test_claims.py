"""Claims and run records with links in their place, and on a full disk: nothing runs twice or hangs, and it is said."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.files.local_storage import LocalStorage
from framework.server.engines.launch import Handle
from framework.server.engines.launchers import LocalLauncher
from framework.server.engines.run_records import RunRecord, RunRecords, RunState
from framework.server.engines.start_request import StartRequest
from framework.server.engines.starter import Starter
from framework.server.engines.storage_claim import StorageClaim
from framework.server.pipelines import PipelineEntry
from tests.support.full_disk import full_disk
from tests.support.served_pipelines import eventually, fake_command, root_of, runs_of, served, starter_of


def records_of(entry: PipelineEntry) -> RunRecords:
    """The run records of a pipeline."""
    return RunRecords(cast("LocalStorage", entry.storage))


def test_a_link_in_the_place_of_the_claim_is_an_error_and_its_file_stays(tmp_path: Path) -> None:
    """The file that it leads to is neither locked nor emptied; without the link the next request is accepted."""
    entry = served(tmp_path / "shop")
    (tmp_path / "precious").write_text("kept")
    link = root_of(entry) / "server.lock"
    link.symlink_to(tmp_path / "precious")
    starter = starter_of(entry)
    with pytest.raises(OperationError, match=r"server\.lock") as refused:
        starter.request(entry, StartRequest())
    starter.tick()
    assert ("STORAGE_NOT_WRITABLE", "kept") == (refused.value.condition, (tmp_path / "precious").read_text())
    link.unlink()
    assert starter.request(entry, StartRequest()).update_id


def test_a_link_in_the_place_of_a_record_is_never_accepted(tmp_path: Path) -> None:
    """Nobody is told that a request is accepted which has no record."""
    entry = served(tmp_path)
    update = StartRequest(key="night").identity(entry).update_id
    (root_of(entry) / "runs").mkdir()
    (root_of(entry) / "runs" / f"{update}.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OperationError, match=update) as refused:
        starter_of(entry).request(entry, StartRequest(key="night"))
    assert ("STORAGE_NOT_WRITABLE", False) == (refused.value.condition, (tmp_path / "nowhere").exists())


def test_records_behind_a_link_to_another_storage_are_not_adopted(tmp_path: Path) -> None:
    """The runs of one pipeline are not those of another one that has its name."""
    first, second = served(tmp_path / "a"), served(tmp_path / "b")
    (root_of(first) / "engine-wait").touch()
    starter = starter_of(first)
    update = starter.request(first, StartRequest()).update_id
    (root_of(second) / "runs").symlink_to(root_of(first) / "runs")
    other = starter_of(second)
    other.tick()
    with pytest.raises(OperationError) as refused:
        other.request(second, StartRequest())
    assert ("STORAGE_NOT_WRITABLE", []) == (refused.value.condition, runs_of(second))
    starter.stop(first)
    eventually(lambda: not (records_of(first).read(update) or _NONE).is_open, starter.tick)


_NONE = RunRecord(update_id="", request_id="", pipeline="")


def made_link(path: Path, target: Path) -> None:
    """Make a link."""
    path.symlink_to(target)


def made_pipe(path: Path, target: Path) -> None:
    """Make a named pipe, which a program that opens it waits for."""
    del target
    os.mkfifo(path)


@pytest.mark.parametrize("make", [made_link, made_pipe])
def test_a_log_that_is_no_file_starts_nothing_and_is_not_read(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    """Another file is neither written nor shown; the run waits with the cause, and starts when the log is free."""
    entry = served(tmp_path / "shop")
    (tmp_path / "precious").write_text("kept")
    update = StartRequest(key="night").identity(entry).update_id
    (root_of(entry) / "runs").mkdir()
    log = root_of(entry) / "runs" / f"{update}.log"
    make(log, tmp_path / "precious")
    starter = starter_of(entry)
    starter.request(entry, StartRequest(key="night"))
    fault = starter.faults[entry.pipeline_id]
    assert ("STORAGE_NOT_WRITABLE", True) == (fault.condition, log.name in fault.what)
    assert ([], "kept", None) == (
        runs_of(entry),
        (tmp_path / "precious").read_text(),
        records_of(entry).log_text(update),
    )
    log.unlink()
    eventually(lambda: runs_of(entry) == [update], starter.tick)
    starter.tick()
    assert {} == starter.faults


def test_a_claim_on_a_full_disk_is_an_error_and_nobody_has_it(tmp_path: Path) -> None:
    """It names the file; another server can take the claim, and so can this one when there is space."""
    storage = LocalStorage(str(tmp_path))
    first, second = StorageClaim(storage), StorageClaim(storage)
    with full_disk(after=0), pytest.raises(OperationError, match=r"server\.lock") as refused:
        first.take()
    assert ("STORAGE_NOT_WRITABLE", True, False) == (refused.value.condition, second.take(), first.take())
    second.release()
    assert first.take()


class FullAfterStart(LocalLauncher):
    """Starts processes; the disk of the server is full as soon as one has started."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = full_disk(after=0)

    def start(self, record: RunRecord, log: IO[bytes], folder: Path) -> Handle:
        """Start the process, and fill the disk."""
        found = super().start(record, log, folder)
        self.disk.__enter__()
        return found


def test_a_disk_that_is_full_when_the_process_has_started_runs_it_once(tmp_path: Path) -> None:
    """Its record can't name the process, which is adopted by its log, and its end is recorded when there is space."""
    entry, launcher = served(tmp_path), FullAfterStart()
    (root_of(entry) / "engine-wait").touch()
    starter = Starter(lambda: [entry], {"local": launcher}, SystemClock(), most_engines=4, command=fake_command)
    try:
        update = starter.request(entry, StartRequest()).update_id
        starter.tick()
    finally:
        launcher.disk.__exit__(None, None, None)
    found = records_of(entry).read(update)
    assert (RunState.STARTING, None, 1) == (found and found.state, found and found.pid, starter.running)
    (root_of(entry) / "engine-wait").unlink()
    eventually(lambda: not (records_of(entry).read(update) or _NONE).is_open, starter.tick)
    assert [update] == runs_of(entry)


def test_an_end_that_could_not_be_recorded_at_once_keeps_its_exit_code(tmp_path: Path) -> None:
    """A process that refused is FAILED, and not LOST, however late there is space for its record."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-refuse").touch()
    starter = starter_of(entry)
    update = starter.request(entry, StartRequest()).update_id
    records = records_of(entry)
    eventually(lambda: not records.is_alive(records.read(update) or _NONE))
    with full_disk(after=0):
        starter.tick()
        assert "STORAGE_NOT_WRITABLE" == starter.faults[entry.pipeline_id].condition
    starter.tick()
    found = records.read(update)
    assert ("FAILED", 2, {}) == (found and found.outcome, found and found.exit_code, starter.faults)


def test_the_claim_names_the_server(tmp_path: Path) -> None:
    """For the message of the second one."""
    claim = StorageClaim(LocalStorage(str(tmp_path)))
    assert claim.take()
    assert f"process {os.getpid()} on {socket.gethostname()}" == claim.holder
