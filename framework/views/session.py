"""The status of a folder's session server, as a sentence and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.foundation.wording import counted, seconds_text


def session_sentence(status: Mapping[str, Any] | None) -> str:
    """Return a sentence on whether Spark is ready for a folder, which command uses it, and when the session ends."""
    if status is None:
        return "No session runs for this folder: each command starts Spark itself."
    text = f"Spark is ready for the commands in {status['folder']} (process {status['pid']}, since {status['since']})."
    if status["user"] is not None:
        return f"{text} Process {status['user']['pid']} ({status['user']['command']}) uses it now."
    used = f"{counted(status['commands'], 'command')} used it. " if status["commands"] else ""
    left = max(0.0, status["ends_after_idle_seconds"] - status["idle_seconds"])
    return f"{text} {used}It ends in {seconds_text(left)} unless a command uses it, or with `sluice session stop`."


def session_json(status: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the status as JSON values."""
    return {"running": status is not None, **(status or {})}
