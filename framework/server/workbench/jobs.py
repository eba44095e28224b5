"""The queue of jobs: each runs a command as a child process and keeps its JSON result in memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.errors import OperationError, UserError
from framework.foundation.secrets.known_secrets import hide_known
from framework.server.pipelines import PipelineEntry
from framework.server.workbench.kinds import KINDS

_MOST_WAITING, _KEPT = 100, 200
_MOST_LISTENING = 16
_LONGEST_SECONDS = 900.0
_LONGEST_ERROR = 4_000
_ERROR = re.compile(
    r"^\[(?P<condition>[A-Z][A-Z0-9_.]*)\] (?P<what>.*?)(?:\n  -> (?P<remedy>.*?))?(?=\n\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
DONE = frozenset({"DONE", "FAILED", "CANCELED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: what was asked, its state, and its result, which is what its command printed.

    Args:
        error: condition, problem and remedy, if it failed.
    """

    job: str
    kind: str
    pipeline_id: str
    command: tuple[str, ...] = ()
    state: str = "QUEUED"
    created_at: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    result: Any = None
    error: Mapping[str, str] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has a result or an error."""
        return self.state in DONE

    def with_result(self, result: Any) -> Job:
        """Return the job with another result."""
        return replace(self, result=result)

    def to_json(self, place: int | None = None) -> dict[str, Any]:
        """Return the job as JSON values, with its place in the queue."""
        return {**self.brief(place), "result": self.result, "error": None if self.error is None else dict(self.error)}

    def brief(self, place: int | None = None) -> dict[str, Any]:
        """Return the job without its result, which not everybody may read."""
        names = ("job", "kind", "pipeline_id", "state", "created_at", "started_at", "ended_at", "exit_code")
        return {**{name: getattr(self, name) for name in names}, "place": place}


class Workbench:
    """Runs jobs one at a time, in the order of their requests; safe to call from any thread.

    Args:
        clock: the source of times.
        changed: called with each job whose state has changed.
        program: the command line of `sluice`.
    """

    def __init__(
        self, clock: Clock, changed: Callable[[Job], None],
        program: tuple[str, ...] = (sys.executable, "-m", "framework"),
    ) -> None:  # fmt: skip
        self._clock = clock
        self._changed = changed
        self._program = program
        self._state = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._folders: dict[str, Path] = {}
        self._child: tuple[str, subprocess.Popen[bytes]] | None = None
        self._closed = False
        self._listening = 0
        self._worker = threading.Thread(target=self._work, name="sluice-workbench", daemon=True)
        self._worker.start()

    def add(self, entry: PipelineEntry, kind: str, body: Mapping[str, Any]) -> Job:
        """Queue a job.

        Raises:
            UserError: UPDATE_REQUEST_INVALID, SERVE_SPEC_GONE.
            OperationError: SERVE_QUEUE_FULL.
        """
        if entry.gone is not None:
            raise UserError("SERVE_SPEC_GONE", pipeline=entry.name, update="that", spec=entry.spec_file)
        command = KINDS[kind].command(str(entry.spec_file), body)
        now = timestamp_text(self._clock.now())
        job = Job(job=uuid.uuid4().hex, kind=kind, pipeline_id=entry.pipeline_id, command=command, created_at=now)
        with self._state:
            if len(self._waiting()) >= _MOST_WAITING:
                raise OperationError("SERVE_QUEUE_FULL", most=_MOST_WAITING)
            self._folders[job.job] = entry.spec_file.parent
            self._put(job)
        return job

    def get(self, job: str) -> Job | None:
        """Return a job; None if it is unknown or forgotten."""
        with self._state:
            return self._jobs.get(job)

    def place(self, job: str) -> int | None:
        """Return the place of a job in the queue, from 1; None if it does not wait."""
        with self._state:
            waiting = self._waiting()
        return waiting.index(job) + 1 if job in waiting else None

    def wait(self, job: str, seconds: float) -> Job | None:
        """Return a job as soon as it has ended, or after some seconds; at once if many wait already.

        Who waits has a thread, of which the server has few: others must find one.
        """
        with self._state:
            if self._listening < _MOST_LISTENING:
                self._listening += 1
                try:
                    self._state.wait_for(lambda: job not in self._jobs or self._jobs[job].has_ended, timeout=seconds)
                finally:
                    self._listening -= 1
            return self._jobs.get(job)

    def cancel(self, job: str) -> Job | None:
        """End a job that waits or runs."""
        with self._state:
            found = self._jobs.get(job)
            if found is None or found.has_ended:
                return found
            now = timestamp_text(self._clock.now())
            canceled = self._put(replace(found, state="CANCELED", ended_at=now))
            if self._child is not None and self._child[0] == job:
                _end(self._child[1])
            return canceled

    def last(self, pipeline_id: str, kind: str) -> Job | None:
        """Return the newest job of a kind that has a result."""
        with self._state:
            found = [each for each in self._jobs.values() if (each.pipeline_id, each.kind) == (pipeline_id, kind)]
        return next((each for each in reversed(found) if each.state == "DONE"), None)

    def close(self) -> None:
        """End the running job, and start no other."""
        with self._state:
            self._closed = True
            if self._child is not None:
                _end(self._child[1])
            self._state.notify_all()
        self._worker.join(timeout=10.0)

    def _work(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._closed or self._waiting())
                if self._closed:
                    return
                job = self._jobs[self._waiting()[0]]
                job = self._put(replace(job, state="RUNNING", started_at=timestamp_text(self._clock.now())))
            done = self._done(job)
            with self._state:
                if self._jobs.get(job.job) == job:  # it was not canceled meanwhile
                    self._put(done)

    def _done(self, job: Job) -> Job:
        """Run a job's command, and return the job with its result."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            child = None
            try:
                with self._state:
                    child = subprocess.Popen(  # noqa: S603 - our own command line; names follow `--`
                        (*self._program, *job.command), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                        cwd=self._folders[job.job], start_new_session=True,
                    )  # fmt: skip
                    self._child = (job.job, child)
                    if self._closed:
                        _end(child)
                code = child.wait(timeout=_LONGEST_SECONDS)
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                if child is not None:
                    _end(child)
                return self._failed(job, None, str(error))
            finally:
                self._child = None
            return self._read(job, code, _text(output), _text(errors))

    def _read(self, job: Job, code: int, output: str, errors: str) -> Job:
        result = None
        if KINDS[job.kind].prints_json:
            try:
                result = json.loads(output)
            except ValueError:
                return self._failed(job, code, errors)
        elif code != 0:
            return self._failed(job, code, errors)
        now = timestamp_text(self._clock.now())
        return replace(job, state="DONE", ended_at=now, exit_code=code, result=result)

    def _failed(self, job: Job, code: int | None, text: str) -> Job:
        return replace(
            job, state="FAILED", ended_at=timestamp_text(self._clock.now()), exit_code=code, error=_error(text)
        )

    def _waiting(self) -> list[str]:
        return [each.job for each in self._jobs.values() if each.state == "QUEUED"]

    def _put(self, job: Job) -> Job:
        self._jobs[job.job] = job
        ended = [each.job for each in self._jobs.values() if each.has_ended]
        for old in ended[:-_KEPT]:
            del self._jobs[old]
            self._folders.pop(old, None)
        self._state.notify_all()
        self._changed(job)
        return job


def _error(text: str) -> Mapping[str, str]:
    """Return the first error in a command's output."""
    found = [*_ERROR.finditer(hide_known(text).strip())]
    if not found:
        return {"condition": "INTERNAL_ERROR", "what": hide_known(text).strip()[-_LONGEST_ERROR:], "remedy": ""}
    first = found[0]
    return {
        "condition": first["condition"],
        "what": first["what"][:_LONGEST_ERROR],
        "remedy": (first["remedy"] or "").strip(),
    }


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode(errors="replace"))


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
