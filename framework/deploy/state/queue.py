"""A deploy that waits for its time: the fingerprint of its plan, kept beside the state."""

from __future__ import annotations

import json

from framework.deploy.api.workspace import Workspace
from framework.foundation.clock import timestamp_text

QUEUE_FILE = "queued-deploy.json"


def put_in_queue(workspace: Workspace, folder: str, fingerprint: str, user: str) -> None:
    """Keep which plan waits; the one that waited before gives way."""
    row = {"fingerprint": fingerprint, "queued_by": user, "queued_at": timestamp_text(workspace.clock.now())}
    workspace.write_file(f"{folder}/{QUEUE_FILE}", json.dumps(row).encode("utf-8"))


def queued_fingerprint(workspace: Workspace, folder: str) -> str | None:
    """Which plan waits; None when none does."""
    text = workspace.read_file(f"{folder}/{QUEUE_FILE}")
    return None if text is None else str(json.loads(text)["fingerprint"])


def leave_queue(workspace: Workspace, folder: str) -> None:
    """Let nothing wait any more."""
    workspace.delete_file(f"{folder}/{QUEUE_FILE}")
