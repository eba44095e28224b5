"""A lease for storage without locks: its holder renews it, and another process takes over an expired one."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage

_SUFFIX = ".json"
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The times of a lease: it expires without renewal for `lasts_seconds`, and is renewed every `renew_seconds`."""

    lasts_seconds: float = 60.0
    renew_seconds: float = 15.0


class Lease:
    """Numbered files in a folder; the file with the highest number is the lease.

    A process takes the lease by creating the next number, which only one of several can do. A holder
    whose lease expired sees the higher number at its next renewal, and stops: it never writes to the
    new holder's file. The age of a lease is the difference of two file times of the file system,
    so the clocks of the machines need not agree.

    `acquire` has two durable effects: it creates the new file, then deletes older ones. After a crash
    in between, older files remain; they have no effect, because only the highest number counts.

    Args:
        storage: the storage of the folder.
        folder: the lease's folder.
        terms: the times of expiry and renewal.
        on_lost: called once, from the renewing thread, when the lease is lost.
        clock: measures how long no renewal has succeeded.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        terms: LeaseTerms,
        on_lost: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.folder = folder
        self.terms = terms
        self._storage = storage
        self._on_lost = on_lost
        self._clock = clock or SystemClock()
        self._token = uuid.uuid4().hex
        self._number = 0
        self._holder: Mapping[str, Any] = {}
        self._stopping = threading.Event()
        self._lost = threading.Event()
        self._renewer = threading.Thread(target=self._renew_until_stopped, name="sluice-lease", daemon=True)

    def acquire(self, holder: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Take the lease and start to renew it.

        Returns:
            None if the lease is acquired; else its holder.
        """
        self._holder = holder
        for _ in range(_TRIES):
            newest = self._newest_number()
            present = self._read(newest)
            if present is not None and not present.get("released") and not self._is_expired(newest):
                return present.get("holder") or {}
            self._number = newest + 1
            if self._storage.create_text(self._file(self._number), self._content()) and self._is_ours():
                failpoint("lease.before_cleaning")
                self._delete_older()
                self._renewer.start()
                return None
        return (self._read(self._newest_number()) or {}).get("holder") or {}

    def release(self) -> bool:
        """Release the lease; False if it had been lost, or if that is unknown."""
        self._stopping.set()
        self._renewer.join()
        try:
            if self._lost.is_set() or not self._is_ours():
                return False
            self._storage.write_text(self._file(self._number), self._content(released=True))
        except OperationError:
            return False
        return True

    def _renew_until_stopped(self) -> None:
        """Renew the lease; give up if another process took over, or if it would soon be old enough for that.

        What counts is the time since the last renewal: one that fails may have waited for minutes before.
        """
        patience, renewed = self.terms.lasts_seconds - self.terms.renew_seconds, self._clock.monotonic()
        try:
            while not self._stopping.wait(self.terms.renew_seconds):
                begun = self._clock.monotonic()
                try:
                    if not self._is_ours():
                        break
                    self._storage.write_text(self._file(self._number), self._content())
                    renewed = begun
                except OperationError:
                    if self._clock.monotonic() - renewed >= patience:
                        break
        finally:  # also after an error that nobody foresaw: nobody renews the lease any more
            if not self._stopping.is_set():
                self._lost.set()
                if self._on_lost is not None:
                    self._on_lost()

    def _is_ours(self) -> bool:
        """Whether the newest file is ours, by number and content, because on S3 two processes can create one file."""
        newest = self._newest_number()
        return newest == self._number and (self._read(newest) or {}).get("token") == self._token

    def _is_expired(self, number: int) -> bool:
        """Whether the lease expired, by the clock of the file system."""
        probe = f"now-{self._token}"
        self._storage.write_text(f"{self.folder}/{probe}", "")
        times = {file.name: file.modified_at for file in self._storage.list_files(self.folder)}
        self._storage.delete_tree(f"{self.folder}/{probe}")
        renewed = times.get(f"{number:020d}{_SUFFIX}", 0.0)
        return times[probe] - renewed > self.terms.lasts_seconds

    def _delete_older(self) -> None:
        for number in self._numbers():
            if number < self._number:
                self._storage.delete_tree(self._file(number))

    def _newest_number(self) -> int:
        return max(self._numbers(), default=0)

    def _numbers(self) -> list[int]:
        stems = [name.removesuffix(_SUFFIX) for name in self._storage.list_names(self.folder) if name.endswith(_SUFFIX)]
        return [int(stem) for stem in stems if stem.isdecimal()]

    def _file(self, number: int) -> str:
        return f"{self.folder}/{number:020d}{_SUFFIX}"

    def _read(self, number: int) -> dict[str, Any] | None:
        text = self._storage.read_text(self._file(number)) if number else None
        try:
            value = json.loads(text or "null")
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def _content(self, *, released: bool = False) -> str:
        return json.dumps({"token": self._token, "holder": dict(self._holder), "released": released})
