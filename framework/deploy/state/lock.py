"""One deploy at a time: a lock in the workspace, the same file that Databricks' own command line takes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from databricks.sdk.errors import ResourceAlreadyExists

from framework.deploy.api.workspace import AnswerLost, Workspace
from framework.foundation.errors import OperationError

LOCK_FILE = "deploy.lock"
LEASE_SECONDS = 3600.0


class DeployLock:
    """The lock of one target.

    Args:
        folder: the target's state path.
        owner: who deploys.
    """

    def __init__(self, workspace: Workspace, folder: str, owner: str) -> None:
        self._workspace = workspace
        self._path = f"{folder}/{LOCK_FILE}"
        self._owner = owner
        self._id = uuid4().hex

    def acquire(self, *, force: bool = False) -> None:
        """Take the lock; one that has expired is taken over, and any other with `force`.

        Raises:
            OperationError: DEPLOY_LOCKED when somebody has it.
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
            raise OperationError("DEPLOY_LOCKED", user="somebody", since="a moment ago", path=self._path)

    def check(self) -> None:
        """See that the lock is still ours, right before a write.

        Raises:
            OperationError: DEPLOY_LOCK_LOST.
        """
        holder = self._holder()
        if holder is None or holder.get("ID") != self._id:
            user = "nobody" if holder is None else holder.get("User")
            raise OperationError("DEPLOY_LOCK_LOST", user=user, path=self._path)

    def release(self) -> None:
        """Let go of the lock if it is still ours."""
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
            "ExpiresAt": (now + timedelta(seconds=LEASE_SECONDS)).isoformat(),
        }
        try:
            self._workspace.write_file(self._path, json.dumps(content).encode("utf-8"), overwrite=False)
        except ResourceAlreadyExists:
            return False
        except AnswerLost:
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
        """Whether its lease is over; the lock of Databricks' command line has none, and never is."""
        ends = holder.get("ExpiresAt")
        return ends is not None and datetime.fromisoformat(str(ends)) < self._workspace.clock.now()
