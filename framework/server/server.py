"""The server without its web: its pipelines, followed by one thread, and what may be done with them."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from framework.foundation.clock import Clock
from framework.record.events import Event, EventLevel
from framework.server.access.sessions import Sessions
from framework.server.access.tokens import TokenStore
from framework.server.engines.capacity import memory, most_engines
from framework.server.engines.following import every_launcher
from framework.server.engines.launch_file import planned
from framework.server.engines.launchers import Launcher
from framework.server.engines.leftovers import Leftovers
from framework.server.engines.start_request import engine_command
from framework.server.engines.starter import Command, Starter
from framework.server.pipelines import Found, PipelineEntry, entry_of, find_pipelines
from framework.server.reading.pipeline_reader import Changes, PipelineReader
from framework.server.stream import HOME, Hub
from framework.server.values import Fault, PipelineRow
from framework.server.workbench.jobs import Job, Workbench
from framework.views.flow_board import FlowBoard

_LOOK_SECONDS = 0.5
_FIND_SECONDS = 30.0
_log = logging.getLogger("sluice.server")


class Part(Protocol):
    """Another part of the server, such as schedules or alerts, which is told what happens.

    `look` is called twice a second after all storages were read, `on_event` with each new event. Both run in the
    thread that follows the storages, so they must be quick.
    """

    def on_event(self, entry: PipelineEntry, event: Event) -> None:
        """Take a new event of a pipeline."""
        ...

    def look(self) -> None:
        """Do what is due."""
        ...

    def row_fields(self, entry: PipelineEntry) -> dict[str, Any]:
        """Return fields for the row of a pipeline."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server.

    Args:
        folders: the folders below which pipelines are served.
        state_folder: the folder of tokens, sessions and the state of schedules, for this user only.
        cache: the user's cache, with the indexes of event logs.
        user: the user of browser sessions.
        version: the version of Sluice, for answers.
        most_engines: how many engines may run at the same time; None for what fits into the memory.
    """

    folders: tuple[Path, ...]
    state_folder: Path
    cache: Path
    user: str
    version: str
    most_engines: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What a server does in the world, which tests replace."""

    launchers: Callable[[Clock], Mapping[str, Launcher]] = every_launcher
    command: Command = engine_command
    program: tuple[str, ...] | None = None


class Server:
    """Pipelines with their state, the starter of engines, jobs, tokens and the stream.

    Args:
        settings: where, and for whom.
        clock: the clock.
        ports: processes.
        parts: makes the other parts of the server.
    """

    def __init__(
        self, settings: Settings, clock: Clock, ports: Ports | None = None,
        parts: Sequence[Callable[[Server], Part]] = (),
    ) -> None:  # fmt: skip
        self.settings, self.clock, self.hub = settings, clock, Hub()
        world = ports or Ports()
        most = settings.most_engines or most_engines(memory().total_bytes)
        self.starter = Starter(
            self.pipelines, world.launchers(clock), clock, most_engines=most, command=world.command,
            plan=partial(planned, settings.folders),
        )  # fmt: skip
        program = {} if world.program is None else {"program": world.program}
        self.workbench = Workbench(clock, self._job_changed, **program)
        self.tokens = TokenStore(settings.state_folder, clock)
        self.sessions = Sessions(settings.state_folder, clock, settings.user)
        self._found = Found()
        self._leftovers = Leftovers()
        self._readers: dict[str, PipelineReader] = {}
        self._specs: dict[Path, tuple[int, PipelineEntry | Fault]] = {}
        self._stopping = threading.Event()
        self._looking = threading.RLock()
        self._thread = threading.Thread(target=self._follow, name="sluice-follow", daemon=True)
        self._parts = tuple(make(self) for make in parts)
        self.features: tuple[str, ...] = ()
        """What the API of this server has, for a page of another version; set by the application."""

    def start(self) -> None:
        """Find and read the pipelines, adopt their engines, and follow them until `close`."""
        self.find()
        self.look()
        self._thread.start()

    def close(self) -> None:
        """Follow no more; running updates go on."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.workbench.close()
        self.starter.close()

    def pipelines(self) -> tuple[PipelineEntry, ...]:
        """Return the served pipelines, by name."""
        return self._found.entries

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The specs that can't be used."""
        return self._found.faults

    def reader(self, entry: PipelineEntry) -> PipelineReader:
        """Return the reader of a pipeline's storage."""
        return self._readers[entry.pipeline_id]

    def row(self, entry: PipelineEntry) -> PipelineRow:
        """Return a pipeline with its state."""
        more = {name: value for part in self._parts for name, value in part.row_fields(entry).items()}
        state = self.reader(entry).state
        if state.fault is None:
            state = replace(state, fault=entry.gone or self.starter.faults.get(entry.pipeline_id))
        return PipelineRow(
            pipeline_id=entry.pipeline_id, name=entry.name, spec_file=str(entry.spec_file),
            storage=entry.storage.root, catalog=entry.spec.catalog, schema=entry.spec.schema,
            continuous=entry.spec.continuous, state=state, more=more,
        )  # fmt: skip

    def machine(self) -> dict[str, Any]:
        """Return what the page shows of the machine."""
        found = memory()
        return {
            "version": self.settings.version,
            "boot": self.hub.boot,
            "host": socket.gethostname(),
            "folders": [str(each) for each in self.settings.folders],
            "engines": {
                "running": self.starter.running,
                "queued": len(self.starter.waiting()),
                "most": self.starter.most_engines,
            },
            "memory": {"total_bytes": found.total_bytes, "available_bytes": found.available_bytes},
            "reader_of": self.starter.other_server,
            "features": list(self.features),
        }

    def find(self) -> None:
        """Find the pipelines again; a pipeline whose spec has not changed stays the same object."""
        found = find_pipelines(self.settings.folders, self._entry)
        left = self._leftovers.find(found, self._found.entries)
        found = replace(found, entries=tuple(sorted((*found.entries, *left), key=lambda each: each.name)))
        with self._looking:
            before = {each.pipeline_id for each in self._found.entries}
            new = [each for each in found.entries if each.pipeline_id not in self._readers]
            # First the readers: another thread may ask for that of a pipeline as soon as it is known.
            self._readers |= {each.pipeline_id: PipelineReader(each, self.settings.cache) for each in new}
            self._found = found
            for each in new:
                self._publish(each, self.reader(each).look())
            if before and before != {each.pipeline_id for each in found.entries}:
                self.hub.publish([HOME], "snapshot", self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        """Return the present state of all pipelines and of the machine."""
        return {"pipelines": [self.row(each).to_json() for each in self.pipelines()], "machine": self.machine()}

    def look(self) -> None:
        """Read what is new in all storages, settle and start engines, and send what has changed."""
        with self._looking:
            _try(self.starter.tick)
            for entry in self.pipelines():
                _try(partial(self.look_at, entry))
            for part in self._parts:
                _try(part.look)

    def look_at(self, entry: PipelineEntry) -> None:
        """Read one pipeline now, so that the next answer has what this request has changed."""
        with self._looking:
            self._publish(entry, self.reader(entry).look())

    def _entry(self, file: Path) -> PipelineEntry | Fault:
        try:
            changed = max(each.stat().st_mtime_ns for each in (file, file.parent))
        except OSError:
            changed = -1
        known = self._specs.get(file)
        if known is None or known[0] != changed:
            known = self._specs[file] = (changed, entry_of(file))
        return known[1]

    def _follow(self) -> None:
        found = self.clock.monotonic()
        while not self._stopping.wait(_LOOK_SECONDS):
            if self.clock.monotonic() - found >= _FIND_SECONDS:
                found = self.clock.monotonic()
                _try(self.find)
            self.look()

    def _publish(self, entry: PipelineEntry, changes: Changes) -> None:
        here = entry.pipeline_id
        for event in changes.events:
            for part in self._parts:
                part.on_event(entry, event)
            if event.level is not EventLevel.METRICS:
                self.hub.publish([here], "event", {"pipeline_id": here, "event": event.to_row()})
        for update_id, flow in changes.flows:
            board = FlowBoard(update_id=update_id, flows=(flow,)).to_json(self.clock.now())
            self.hub.publish([here], "flow", {"pipeline_id": here, "update_id": update_id, "flow": board["flows"][0]})
        for update in changes.updates:
            self.hub.publish([HOME, here], "update", update.to_json())
        if changes.has_new_state:
            self.hub.publish([HOME, here], "pipeline", self.row(entry).to_json())

    def _job_changed(self, job: Job) -> None:
        self.hub.publish([job.pipeline_id], "job", job.brief())


def _try(look: Callable[[], None]) -> None:
    """Log what one storage or part raises: the others must not be left with old states for ever."""
    try:
        look()
    except Exception:  # noqa: BLE001 - see above
        _log.exception("A look failed; the server tries again.")
