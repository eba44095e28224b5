"""Deploy lock and queue in the workspace.

One deploy runs at a time; the Databricks CLI locks the same file. At most one deploy is queued.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from databricks.sdk.errors import ResourceAlreadyExists

from framework.deploy.api.workspace import ResponseLost, Workspace
from framework.foundation.clock import timestamp_text
from framework.foundation.errors import OperationError
from framework.foundation.files.stored_format import StoredFormat

LOCK_FILE = "deploy.lock"
_LEASE_SECONDS = 3600.0
QUEUE_FILE = "queued-deploy.json"
_QUEUE_FORMAT = StoredFormat(1)


class DeployLock:
    """The lock of one target.

    Args:
        folder: the target's state path.
        owner: user who deploys.
    """

    def __init__(self, workspace: Workspace, folder: str, owner: str) -> None:
        self._workspace = workspace
        self._path = f"{folder}/{LOCK_FILE}"
        self._owner = owner
        self._id = uuid4().hex

    def acquire(self, *, force: bool = False) -> None:
        """Acquire the lock; replace an expired lock, and with `force` any lock.

        Raises:
            OperationError: DEPLOY_LOCKED if it is held.
        """
        if self._create():
            return
        holder = self._holder()
        if holder is not None and not force and not self._expired(holder):
            raise OperationError(
                "DEPLOY_LOCKED", user=holder.get("User"), since=holder.get("AcquisitionTime"), path=self._path
            )
        self._workspace.delete_file(self._path)
        if not self._create():
            raise OperationError("DEPLOY_LOCKED", user="unknown", since="a moment ago", path=self._path)

    def check(self) -> None:
        """Check right before a write that the lock is still held by this deploy.

        Raises:
            OperationError: DEPLOY_LOCK_LOST.
        """
        holder = self._holder()
        if holder is None or holder.get("ID") != self._id:
            user = "none" if holder is None else holder.get("User")
            raise OperationError("DEPLOY_LOCK_LOST", user=user, path=self._path)

    def release(self) -> None:
        """Release the lock if it is still held by this deploy."""
        holder = self._holder()
        if holder is not None and holder.get("ID") == self._id:
            self._workspace.delete_file(self._path)

    def _create(self) -> bool:
        now = self._workspace.clock.now()
        content = {
            "ID": self._id,
            "AcquisitionTime": now.isoformat(),
            "IsForced": False,
            "User": self._owner,
            "ExpiresAt": (now + timedelta(seconds=_LEASE_SECONDS)).isoformat(),
        }
        try:
            self._workspace.write_file(self._path, json.dumps(content).encode("utf-8"), overwrite=False)
        except ResourceAlreadyExists:
            return False
        except ResponseLost:
            holder = self._holder()
            return holder is not None and holder.get("ID") == self._id
        return True

    def _holder(self) -> dict[str, Any] | None:
        text = self._workspace.read_file(self._path)
        try:
            found = None if text is None else json.loads(text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else None if found is None else {}

    def _expired(self, holder: dict[str, Any]) -> bool:
        """Return whether a lock's lease has expired; a lock of the Databricks CLI has no lease and never expires."""
        ends = holder.get("ExpiresAt")
        return ends is not None and datetime.fromisoformat(str(ends)) < self._workspace.clock.now()


def put_in_queue(workspace: Workspace, folder: str, fingerprint: str, user: str) -> None:
    """Queue a plan; replace a plan that is already queued."""
    row = {"fingerprint": fingerprint, "queued_by": user, "queued_at": timestamp_text(workspace.clock.now())}
    workspace.write_file(f"{folder}/{QUEUE_FILE}", _QUEUE_FORMAT.text(row).encode("utf-8"))


def queued_fingerprint(workspace: Workspace, folder: str) -> str | None:
    """Return the fingerprint of the queued plan; None if the queue is empty.

    Raises:
        OperationError: STORED_FORMAT_UNKNOWN.
    """
    path = f"{folder}/{QUEUE_FILE}"
    text = workspace.read_file(path)
    return None if text is None else str(_QUEUE_FORMAT.content(text, path)["fingerprint"])


def leave_queue(workspace: Workspace, folder: str) -> None:
    """Empty the queue."""
    workspace.delete_file(f"{folder}/{QUEUE_FILE}")
