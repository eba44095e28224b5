"""Pipelines for the tests of the server: a spec in a folder, engines that are stand-ins, and times that are bounded."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from framework.foundation.clock import SystemClock
from framework.run.update.control.identity import UpdateIdentity
from framework.server.engines.following import every_launcher
from framework.server.engines.start_request import StartRequest, engine_command
from framework.server.engines.starter import Starter
from framework.server.pipelines import PipelineEntry, find_pipelines
from tests.support import fake_engine

_LONGEST_SECONDS = 20.0


def write_spec(folder: Path, name: str = fake_engine.NAME, more: str = "") -> Path:
    """Write the spec of a pipeline; its storage is `folder/.sluice/<name>`."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "pipeline.yml"
    spec.write_text(f"name: {name}\nlibraries:\n  - glob: {{include: transformations/**}}\n{more}", "utf-8")
    return spec


def served(folder: Path, name: str = fake_engine.NAME) -> PipelineEntry:
    """Return the pipeline of a new spec in a folder, whose storage exists."""
    write_spec(folder, name)
    (entry,) = find_pipelines([folder]).entries
    root_of(entry).mkdir(parents=True, exist_ok=True)
    return entry


def root_of(entry: PipelineEntry) -> Path:
    """Return the folder of a pipeline's storage."""
    return Path(entry.storage.root)


def fake_command(entry: PipelineEntry, request: StartRequest, identity: UpdateIdentity) -> tuple[str, ...]:
    """Return the command line of the stand-in; the real one is made too, because it checks the request."""
    engine_command(entry, request, identity)
    script = str(Path(fake_engine.__file__))
    return (
        sys.executable,
        "-S",
        script,
        entry.storage.root,
        identity.update_id,
        identity.request_id,
        str(identity.cause),
    )


def starter_of(*entries: PipelineEntry, most_engines: int = 4) -> Starter:
    """Return a starter with engines that are stand-ins."""
    clock = SystemClock()
    return Starter(lambda: entries, every_launcher(clock), clock, most_engines=most_engines, command=fake_command)


def eventually(holds: Callable[[], object], step: Callable[[], object] = lambda: None) -> None:
    """Wait until something holds.

    Raises:
        AssertionError: it does not hold within 20 seconds.
    """
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        step()
        time.sleep(0.02)


def runs_of(entry: PipelineEntry) -> list[str]:
    """Return the ids of the processes that were started, each time one was."""
    path = root_of(entry) / "ran.txt"
    return path.read_text().split() if path.exists() else []
