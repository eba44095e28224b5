"""One update of a pipeline at a time; a dead holder blocks no other."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage, Storage
from framework.foundation.processes import start_of_process
from framework.run.update.control.lock_holder import LOCK_FILE, check_lock_format, lock_holder
from framework.run.update.lease import Lease, LeaseTerms
from framework.run.update.lock import check_unlocked, update_lock
from framework.testing.manual_clock import ManualClock

HOLDER = """
import subprocess, sys, time
from framework.engine.files.storage import open_storage
from framework.run.update.lock import update_lock

with update_lock(open_storage(sys.argv[1]), "held"):
    child = subprocess.Popen(["sleep", "600"])  # as Spark's JVM is: it must not inherit the lock
    print(child.pid, flush=True)
    time.sleep(600)
"""
TAKER = """
import sys
from framework.engine.files.storage import open_storage
from framework.run.update.lease import Lease, LeaseTerms

print(Lease(open_storage(sys.argv[1]), "lease", LeaseTerms(lasts_seconds=0)).acquire({"pid": 2}), flush=True)
"""


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    """A storage that does not exist yet."""
    return LocalStorage(str(tmp_path / "storage"))


def test_a_second_update_is_told_who_runs(storage: LocalStorage) -> None:
    """While one update holds the lock, the error of another names the holder, the lock file and the remedy."""
    with (
        update_lock(storage, "u-1", clock=ManualClock()),
        pytest.raises(OperationError) as caught,
        update_lock(storage, "u-2"),
    ):
        pass
    assert caught.value.condition == "UPDATE_ALREADY_RUNNING"
    assert caught.value.fields == {
        "holder": f"update u-1, process {os.getpid()} on {socket.gethostname()}, since 2026-01-01T00:00:00.000Z",
        "path": storage.path("update.lock"),
        "advice": "The lock is released when its process ends.",
        "update": "u-1",
    }


def test_the_lock_is_looked_at_without_taking_it_or_writing_anything(storage: LocalStorage) -> None:
    """An update that can't start is rejected before Spark starts; a missing storage is not created."""
    check_unlocked(storage)
    assert not pathlib.Path(storage.root).exists()
    with update_lock(storage, "u-1"):
        with pytest.raises(OperationError) as caught:
            check_unlocked(storage)
        assert caught.value.condition == "UPDATE_ALREADY_RUNNING"
        assert "update u-1" in str(caught.value.fields["holder"])
    check_unlocked(storage)


def test_the_next_update_gets_the_lock_of_one_that_ended(storage: LocalStorage) -> None:
    """A lock is released after its block, also after an exception, and the file names no holder."""
    with pytest.raises(RuntimeError), update_lock(storage, "u-1"):
        raise RuntimeError
    with update_lock(storage, "u-2"):
        pass
    assert storage.read_text("update.lock") == ""


def test_other_pipelines_do_not_wait_for_each_other(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    """Each storage has a separate lock."""
    with update_lock(storage, "u-1"), update_lock(LocalStorage(str(tmp_path / "other")), "u-2"):
        assert "u-2" in (tmp_path / "other" / "update.lock").read_text()


def test_a_killed_holder_leaves_the_lock_free(storage: LocalStorage) -> None:
    """After `kill -9` the next update gets the lock immediately, even if a child of the holder is alive."""
    command = [sys.executable, "-c", HOLDER, storage.root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        with (
            pytest.raises(OperationError, match=f"update held, process {process.pid} on "),
            update_lock(storage, "u-2"),
        ):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with update_lock(storage, "u-2"):
        os.kill(child, signal.SIGKILL)


def test_a_holder_that_has_not_said_its_name_yet_holds_the_lock_too(storage: LocalStorage) -> None:
    """A lock whose file is still empty is held; the error says so without a name."""
    with update_lock(storage, "u-1"):
        pathlib.Path(storage.path("update.lock")).write_text("")
        with pytest.raises(OperationError, match="another process has just started"), update_lock(storage, "u-2"):
            pass


def take(
    storage: LocalStorage, pid: int, *, lasts_seconds: float = 60, on_lost: threading.Event | None = None
) -> Lease:
    """A lease that its holder renews quickly."""
    terms = LeaseTerms(lasts_seconds=lasts_seconds, renew_seconds=0.02)
    lease = Lease(storage, "lease", terms, on_lost.set if on_lost else None)
    assert lease.acquire({"pid": pid}) is None
    return lease


def test_a_lease_is_held_until_it_is_released(storage: LocalStorage) -> None:
    """The error for another taker names the holder; after the release the next taker gets the lease."""
    first = take(storage, 1)
    second = Lease(storage, "lease", LeaseTerms())
    refused = second.acquire({"pid": 2})
    released = first.release()
    assert (refused, released, second.acquire({"pid": 2}), second.release()) == ({"pid": 1}, True, None, True)


def test_one_of_many_takers_gets_the_lease(storage: LocalStorage) -> None:
    """Of eight concurrent takers one gets the lease, and the errors of the others name it."""
    leases = [Lease(storage, "lease", LeaseTerms()) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda pair: pair[1].acquire({"pid": pair[0]}), enumerate(leases)))
    winners = [number for number, answer in enumerate(answers) if answer is None]
    assert len(winners) == 1
    assert [answer for answer in answers if answer is not None] == [{"pid": winners[0]}] * 7
    assert leases[winners[0]].release()


def test_a_lease_that_is_renewed_does_not_expire(storage: LocalStorage) -> None:
    """Renewals update the file's time, so a living holder does not lose the lease."""
    lease = take(storage, 1)
    file = pathlib.Path(storage.path("lease", "lease.json"))
    os.utime(file, (0, 0))
    while file.stat().st_mtime == 0:
        threading.Event().wait(0.01)
    assert Lease(storage, "lease", LeaseTerms()).acquire({"pid": 2}) == {"pid": 1}
    assert lease.release()


def test_a_lease_that_was_not_renewed_is_taken_over_and_its_holder_told(storage: LocalStorage) -> None:
    """The next taker gets an expired lease; the former holder is notified once, and releases nothing."""
    lost = threading.Event()
    first = take(storage, 1, on_lost=lost)
    second = take(storage, 2, lasts_seconds=-60)  # to it every lease is an old one
    assert lost.wait(30)
    assert (first.release(), second.release()) == (False, True)
    assert storage.list_names("lease") == ["lease.json", "lease~~1.json"]


def test_a_taker_that_is_killed_leaves_a_lease_like_any_other(storage: LocalStorage) -> None:
    """`kill -9` between taking and cleaning: the lease is the dead taker's, and expires as such."""
    storage.write_text("lease/lease.json", '{"format": 1, "released": true}')
    environment = {**os.environ, "SLUICE_FAILPOINT": "versions.before_cleaning"}
    done = subprocess.run([sys.executable, "-c", TAKER, storage.root], env=environment, check=False)
    assert (done.returncode, len(storage.list_names("lease"))) == (-9, 2)
    assert Lease(storage, "lease", LeaseTerms()).acquire({"pid": 3}) == {"pid": 2}
    third = take(storage, 3, lasts_seconds=-60)
    assert third.release()


def test_a_lease_whose_storage_is_gone_is_lost(storage: LocalStorage) -> None:
    """If no renewal succeeds for the lease's duration, its holder must stop."""
    lost = threading.Event()
    lease = take(storage, 1, lasts_seconds=0.05, on_lost=lost)
    storage.delete_tree("lease")
    storage.write_text("lease", "a file in the way")
    assert lost.wait(30)
    assert lease.release() is False


class RemoteStorage:
    """A storage that is no local folder."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        """What the storage has."""
        return getattr(self._storage, name)


def test_a_lease_of_another_release_is_found_without_writing(storage: LocalStorage) -> None:
    """The check is that of an update; a missing and a released lease can be taken."""
    remote = cast("Storage", RemoteStorage(storage))
    check_lock_format(remote)
    assert not storage.exists(storage.root)
    with update_lock(remote, "u-1"):
        check_lock_format(remote)
    check_lock_format(remote)
    (name,) = storage.list_names("update.lease")
    text = (storage.read_text(f"update.lease/{name}") or "").replace('"format": 1', '"format": 9')
    storage.write_text(f"update.lease/{name}", text)

    def update(storage: Storage) -> None:
        with update_lock(storage, "u-2"):
            pass

    for refused in (check_lock_format, update):
        with pytest.raises(OperationError) as caught:
            refused(remote)
        assert (caught.value.condition, caught.value.fields["found"]) == ("STORED_FORMAT_UNKNOWN", 9)
    assert storage.list_names("update.lease") == [name]


class SlowStorage(LocalStorage):
    """A storage whose writes fail after 50 seconds, once it is out of reach."""

    def __init__(self, root: str, clock: ManualClock) -> None:
        super().__init__(root)
        self.is_reached, self.failures, self._clock = True, 0, clock

    def write_text(self, path: str, text: str) -> None:
        """Wait and fail, unless the storage is reached."""
        if not self.is_reached:
            self.failures += 1
            self._clock.sleep(50)
            raise OperationError("STORAGE_NOT_WRITABLE", path=path, problem="timeout")
        super().write_text(path, text)


def test_a_renewal_that_fails_slowly_counts_by_its_time(storage: LocalStorage) -> None:
    """A holder gives up before another process may take the lease, however few renewals it had time for."""
    lost, clock = threading.Event(), ManualClock()
    slow = SlowStorage(storage.root, clock)
    lease = Lease(slow, "lease", LeaseTerms(lasts_seconds=60, renew_seconds=0.02), lost.set, clock)
    assert lease.acquire({"pid": 1}) is None
    slow.is_reached = False
    assert lost.wait(30)
    assert (slow.failures, lease.release()) == (2, False)


class BrokenStorage(LocalStorage):
    """A storage that fails with an error of its client's, as one does whose Java has ended."""

    is_broken = False

    def list_names(self, path: str) -> list[str]:
        """Fail, once it is broken."""
        if self.is_broken:
            raise Py4JNetworkError
        return super().list_names(path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lease_that_nobody_renews_any_more_is_lost(storage: LocalStorage) -> None:
    """Whatever ends the thread that renews a lease, its holder must stop."""
    lost, broken = threading.Event(), BrokenStorage(storage.root)
    lease = take(broken, 1, on_lost=lost)
    broken.is_broken = True
    assert lost.wait(30)
    broken.is_broken = False
    assert lease.release() is False


LOOKER = """
import sys
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage
from framework.run.update.lock import check_unlocked

storage = LocalStorage(sys.argv[1])
print("looks", flush=True)
while True:
    try:
        check_unlocked(storage)
    except OperationError:
        pass
"""


def test_who_looks_at_the_lock_keeps_no_update_out(storage: LocalStorage) -> None:
    """`sluice lag`, again and again beside updates: each of them gets the lock."""
    with update_lock(storage, "u-1"):
        pass
    with subprocess.Popen([sys.executable, "-c", LOOKER, storage.root], stdout=subprocess.PIPE, text=True) as looker:
        assert looker.stdout is not None
        looker.stdout.readline()
        try:
            for number in range(400):
                with update_lock(storage, f"u-{number}"):
                    pass
        finally:
            looker.kill()
    assert storage.read_text(LOCK_FILE) == ""


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_damaged_lease_is_no_lease(storage: LocalStorage, text: str) -> None:
    """A file that can't be understood is passed over by a higher number."""
    storage.write_text("lease/lease~~7.json", text)
    lease = take(storage, 1)
    assert storage.list_names("lease") == ["lease~~7.json", "lease~~8.json"]
    assert lease.release()


def killed_holder(storage: LocalStorage, *, jvm: int, jvm_started: str) -> None:
    """Leave the lock file as an update that was killed leaves it: its text stays, its lock is free."""
    holder = {"host": socket.gethostname(), "pid": 1, "update_id": "u-killed", "since": "then"}
    text = json.dumps({"format": 1, **holder, "jvm": jvm, "jvm_started": jvm_started})
    storage.write_text(LOCK_FILE, text)


def test_an_update_waits_for_the_jvm_of_a_killed_update(storage: LocalStorage) -> None:
    """The streams of a killed update run until its JVM has ended; if it does not end, its number is in the error."""
    with subprocess.Popen(["sleep", "600"]) as process:
        killed_holder(storage, jvm=process.pid, jvm_started=start_of_process(process.pid))
        with (
            pytest.raises(OperationError, match=f"its Java process {process.pid} still runs") as refused,
            update_lock(storage, "u-2", clock=ManualClock()),
        ):
            pass
        assert refused.value.condition == "UPDATE_ALREADY_RUNNING"
        threading.Timer(0.2, process.kill).start()
        with update_lock(storage, "u-2"):
            assert start_of_process(process.pid) == ""
    assert storage.read_text(LOCK_FILE) == ""


class JvmOfThisProcess:
    """The view of a JVM that this process would have, with a process number."""

    def current(self) -> JvmOfThisProcess:
        """Return itself, as `ProcessHandle.current` returns a handle."""
        return self

    def pid(self) -> int:
        """Return a number."""
        return os.getpid()


def test_an_update_that_ends_before_its_jvm_leaves_its_name(storage: LocalStorage) -> None:
    """A second Ctrl-C closes the connection to Java, which may still commit: the next update waits for its end."""
    before: Any = SparkContext._jvm
    SparkContext._jvm = type("Gateway", (), {"java.lang.ProcessHandle": JvmOfThisProcess()})()
    try:
        with update_lock(storage, "u-1"):
            pass
        assert storage.read_text(LOCK_FILE) == ""
        with update_lock(storage, "u-2"):
            SparkContext._jvm = None  # as `forget_gateway` does
    finally:
        SparkContext._jvm = before
    left = json.loads(storage.read_text(LOCK_FILE) or "")
    assert (left["update_id"], left["jvm"]) == ("u-2", os.getpid())


def test_an_update_does_not_wait_for_another_process_with_the_number_of_that_jvm(storage: LocalStorage) -> None:
    """Numbers of processes are used again, so the time of the start counts, too."""
    killed_holder(storage, jvm=os.getpid(), jvm_started="1")
    with update_lock(storage, "u-2", clock=ManualClock()):
        assert "u-2" in (storage.read_text(LOCK_FILE) or "")


def test_others_see_the_holder_of_the_lock_while_it_is_held(storage: LocalStorage) -> None:
    """Nobody before and after; the update, its process and its host in between."""
    assert lock_holder(storage) is None
    with update_lock(storage, "u-1", clock=ManualClock()):
        holder = lock_holder(storage)
        assert holder is not None
        assert (holder.update_id, holder.pid, holder.host) == ("u-1", os.getpid(), socket.gethostname())
    assert lock_holder(storage) is None


def test_others_see_the_holder_of_a_lease_until_it_expires_or_is_released(storage: LocalStorage) -> None:
    """Looking takes nothing and leaves no file behind."""
    lease = Lease(storage, "lease", LeaseTerms())
    assert lease.present_holder() is None
    assert lease.acquire({"pid": 1}) is None
    files = storage.list_names("lease")
    assert Lease(storage, "lease", LeaseTerms()).present_holder() == {"pid": 1}
    assert Lease(storage, "lease", LeaseTerms(lasts_seconds=0)).present_holder() is None
    assert storage.list_names("lease") == files
    assert lease.release()
    assert Lease(storage, "lease", LeaseTerms()).present_holder() is None
