"""Queue of at most one deploy: the fingerprint of its plan, in a file next to the state."""

from __future__ import annotations

import json

from framework.deploy.api.workspace import Workspace
from framework.foundation.clock import timestamp_text

QUEUE_FILE = "queued-deploy.json"


def put_in_queue(workspace: Workspace, folder: str, fingerprint: str, user: str) -> None:
    """Queue a plan; replace a plan that is already queued."""
    row = {"fingerprint": fingerprint, "queued_by": user, "queued_at": timestamp_text(workspace.clock.now())}
    workspace.write_file(f"{folder}/{QUEUE_FILE}", json.dumps(row).encode("utf-8"))


def queued_fingerprint(workspace: Workspace, folder: str) -> str | None:
    """Return the fingerprint of the queued plan; None if the queue is empty."""
    text = workspace.read_file(f"{folder}/{QUEUE_FILE}")
    return None if text is None else str(json.loads(text)["fingerprint"])


def leave_queue(workspace: Workspace, folder: str) -> None:
    """Empty the queue."""
    workspace.delete_file(f"{folder}/{QUEUE_FILE}")
