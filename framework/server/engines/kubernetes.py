"""The launcher for Kubernetes: each run is a Job, which `kubectl` creates, looks for and deletes.

The Job is named by the update, so a second creation is a conflict and starts nothing. All calls of `kubectl` are
processes that are started and looked at later: a cluster that does not answer delays no other pipeline.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from framework.foundation.clock import Clock
from framework.server.engines.launch import Ended, Handle, Running, Sight, Unknown
from framework.server.engines.launchers import Children, announced
from framework.server.engines.run_records import RunRecord

_ASK_SECONDS = 10.0
"""The least time between two questions about a Job."""
_ANSWER_SECONDS = 30.0
"""How long the cluster has for an answer."""
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a call of `kubectl` has printed; the code is None if there was no answer in time."""

    code: int | None
    out: str = ""
    err: str = ""


class _Question:
    """A call of `kubectl` that is repeated from time to time, without waiting for it."""

    def __init__(self, argv: tuple[str, ...], clock: Clock) -> None:
        self._argv, self._clock = argv, clock
        self._asked = 0.0
        self._is_due = True
        self._process: subprocess.Popen[bytes] | None = None
        self._files: tuple[IO[bytes], IO[bytes]] | None = None
        self._answer: _Answer | None = None

    def answer(self) -> _Answer | None:
        """Return the last answer; None before the first one. Ask again if it is old."""
        now = self._clock.monotonic()
        if self._process is None and (self._is_due or now - self._asked >= _ASK_SECONDS):
            self._asked, self._is_due = now, False
            self._ask()
        if self._process is not None:
            code = self._process.poll()
            if code is not None:
                self._answer = _Answer(code=code, **self._texts())
                self.close()
            elif now - self._asked > _ANSWER_SECONDS:
                self._answer = _Answer(code=None, err=f"There was no answer in {_ANSWER_SECONDS:.0f} seconds.")
                self.close()
        return self._answer

    def ask_soon(self) -> None:
        """Ask once more after the present call: its answer may be from before a change."""
        self._is_due = True

    def close(self) -> None:
        """End the call, if it has not ended."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None
        for file in self._files or ():
            file.close()
        self._files = None

    def _ask(self) -> None:
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed with the answer
        self._files = (out, err)
        try:
            self._process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err)  # noqa: S603 - kubectl, with the name of a Job
        except OSError as error:
            self._answer = _Answer(code=None, err=str(error))
            self.close()

    def _texts(self) -> dict[str, str]:
        texts = []
        for file in self._files or ():
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return {"out": texts[0], "err": texts[1].strip()[-_LONGEST_TEXT:]}


class KubernetesLauncher:
    """Starts each run as a Job of a cluster.

    Args:
        clock: measures the time between two questions.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._children = Children()
        self._questions: dict[str, _Question] = {}
        self._deletions: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, record: RunRecord, log: IO[bytes], folder: Path) -> Handle:
        """Start `kubectl create`, which reads the Job from its standard input."""
        argv = announced(record, folder)
        with tempfile.TemporaryFile() as manifest:
            manifest.write(record.launch.manifest.encode())
            manifest.seek(0)
            return self._children.start(record, argv, log, folder, manifest)

    def look(self, record: RunRecord, *, is_alive: bool) -> Sight:
        """Return the state of the Job, as the cluster said last."""
        self._reap(record)
        if is_alive:
            return Running()
        launch = record.launch
        argv = (*launch.kubectl, "get", "job", launch.job, "--ignore-not-found", "--output=json")
        question = self._questions.setdefault(record.update_id, _Question(argv, self._clock))
        answer = question.answer()
        if answer is None:
            return Unknown(reason="The cluster has not answered yet.")
        if answer.code != 0:
            return Unknown(reason=f"The cluster does not say what became of Job {launch.job}: {answer.err}")
        if answer.out.strip():
            return _sight_of(launch.job, answer.out)
        code = self._children.code(record)
        return Ended(code=code, has_failed=bool(code), why=f"The cluster has no Job {launch.job}.")

    def stop(self, record: RunRecord) -> None:
        """Delete the Job: its pod gets SIGTERM, and none starts."""
        launch = record.launch
        if record.update_id in self._deletions:
            return
        argv = (*launch.kubectl, "delete", "job", launch.job, "--ignore-not-found", "--wait=false")
        with suppress(OSError):  # without kubectl there is no Job; the next look says so
            self._deletions[record.update_id] = subprocess.Popen(  # noqa: S603 - as above
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip

    def forget(self, record: RunRecord) -> None:
        """Ask no more about a Job."""
        self._children.forget(record)
        deletion = self._deletions.pop(record.update_id, None)
        if deletion is not None:
            deletion.poll()
        question = self._questions.pop(record.update_id, None)
        if question is not None:
            question.close()

    def _reap(self, record: RunRecord) -> None:
        deletion = self._deletions.get(record.update_id)
        if deletion is not None and deletion.poll() is not None:
            del self._deletions[record.update_id]
            if record.update_id in self._questions:
                self._questions[record.update_id].ask_soon()


def _sight_of(job: str, text: str) -> Sight:
    """Return what the status of a Job says; a Job without an end is running, also while it waits for a node."""
    try:
        status: dict[str, Any] = json.loads(text).get("status") or {}
        conditions = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
    except (ValueError, TypeError, KeyError, AttributeError):
        return Unknown(reason=f"The answer about Job {job} can't be read.")
    if "Failed" in conditions:
        found = conditions["Failed"]
        why = " ".join(str(found.get(each, "")) for each in ("reason", "message")).strip()
        return Ended(has_failed=True, why=f"Job {job} has failed: {why}")
    if "Complete" in conditions:
        return Ended(code=0, why=f"Job {job} is complete.")
    return Running()
