"""A lease for storage without locks: its holder renews it, and another process takes it over once it expires."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.files.versioned_files import NONE, read_newest, replace_version, version_path

_FORMAT = StoredFormat(1)
_NAME = "lease.json"
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The times of a lease: it expires `lasts_seconds` after its last renewal, and is renewed every `renew_seconds`."""

    lasts_seconds: float = 60.0
    renew_seconds: float = 15.0


class Lease:
    """A lease in a versioned file: each holder writes the next version; see `versioned_files`.

    A process takes the lease by creating the next version, which succeeds for only one process. A holder whose lease
    expired sees the newer version at its next renewal and stops; it never writes to the new holder's file. The age of a
    lease is the difference of two file times of the same file system, so the clocks of the machines need not agree.

    Args:
        storage: the storage of the folder.
        folder: the folder of the lease's versions.
        terms: the times of expiry and renewal.
        on_lost: called once, from the renewing thread, when the lease is lost.
        clock: measures the time since the last successful renewal.
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
        self._version = NONE
        self._holder: Mapping[str, Any] = {}
        self._stopping = threading.Event()
        self._lost = threading.Event()
        self._renewer = threading.Thread(target=self._renew_until_stopped, name="sluice-lease", daemon=True)

    def acquire(self, holder: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Take the lease and start to renew it.

        Returns:
            None if the lease is acquired; else its present holder.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN.
        """
        self._holder = holder
        for _ in range(_TRIES):
            newest, present = self._present()
            if present is not None:
                return present
            if replace_version(self._storage, self.folder, _NAME, newest, self._content()):
                self._version = newest + 1
                self._renewer.start()
                return None
        return (self._read()[1] or {}).get("holder") or {}

    def present_holder(self) -> Mapping[str, Any] | None:
        """Return the present holder without taking the lease; None if it is released, expired or was never taken.

        The file system's clock decides whether it has expired; to read it, a file is written and deleted.
        """
        return self._present()[1]

    def check_format(self) -> None:
        """Check that this release can read the lease, without writing anything.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN.
        """
        self._read()

    def release(self) -> bool:
        """Release the lease; return False if it was lost, or if that is unknown."""
        self._stopping.set()
        self._renewer.join()
        try:
            if self._lost.is_set() or not self._is_ours():
                return False
            self._storage.write_text(self._path, self._content(released=True))
        except OperationError:
            return False
        return True

    def _present(self) -> tuple[int, Mapping[str, Any] | None]:
        """Return the newest version and its holder; the holder is None if the lease is released, expired or missing."""
        newest, found = self._read()
        if found is None or found.get("released") or self._is_expired(newest):
            return newest, None
        return newest, found.get("holder") or {}

    def _renew_until_stopped(self) -> None:
        """Renew the lease; give up if another process took it over, or soon could.

        Only the time since the last successful renewal counts, because a failing renewal may take minutes.
        """
        patience, renewed = self.terms.lasts_seconds - self.terms.renew_seconds, self._clock.monotonic()
        try:
            while not self._stopping.wait(self.terms.renew_seconds):
                begun = self._clock.monotonic()
                try:
                    if not self._is_ours():
                        break
                    self._storage.write_text(self._path, self._content())
                    renewed = begun
                except OperationError:
                    if self._clock.monotonic() - renewed >= patience:
                        break
        finally:  # also after an unexpected error: the lease is no longer renewed
            if not self._stopping.is_set():
                self._lost.set()
                if self._on_lost is not None:
                    self._on_lost()

    def _is_ours(self) -> bool:
        """Whether the newest version is ours, by number and content: on S3 two processes can create the same file."""
        newest, present = self._read()
        return newest == self._version and (present or {}).get("token") == self._token

    def _is_expired(self, version: int) -> bool:
        """Whether the lease has expired by the file system's clock."""
        probe = f"now-{self._token}"
        self._storage.write_text(f"{self.folder}/{probe}", "")
        times = {file.name: file.modified_at for file in self._storage.list_files(self.folder)}
        self._storage.delete_tree(f"{self.folder}/{probe}")
        renewed = times.get(version_path("", _NAME, version).removeprefix("/"), 0.0)
        return times[probe] - renewed > self.terms.lasts_seconds

    @property
    def _path(self) -> str:
        return version_path(self.folder, _NAME, self._version)

    def _read(self) -> tuple[int, dict[str, Any] | None]:
        """Return the newest version and its content; None if there is none, or if it is damaged."""
        version, text = read_newest(self._storage, self.folder, _NAME)
        try:
            return version, _FORMAT.content(text or "null", version_path(self.folder, _NAME, version))
        except (ValueError, TypeError):
            return version, None

    def _content(self, *, released: bool = False) -> str:
        return _FORMAT.text({"token": self._token, "holder": dict(self._holder), "released": released})
