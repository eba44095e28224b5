"""How a run ended: by the events of its update, else by its exit code and its output."""

from __future__ import annotations

import re

from framework.foundation.conditions import is_known
from framework.foundation.files.storage_port import Storage
from framework.record.events import EventType
from framework.record.reader import read_events
from framework.run.update.control.stop_requests import StopRequests
from framework.server.engines.run_records import RunRecord, RunRecords, RunState
from framework.views.stopping import ENDED

_STOPPED = frozenset({130, 143, -2, -15})
"""The exit codes of a process that an interrupt or SIGTERM ended."""
_ERROR = re.compile(r"^\[([A-Z][A-Z0-9_.]*)\] [^\n]*(?:\n  (?:at |-> |   )[^\n]*){0,4}", re.MULTILINE)
"""An error as commands print it: the condition with a line, the place, and what to do."""
_LONGEST = 4_000


def canceled(record: RunRecord, now: str) -> RunRecord:
    """Return the record of a run that was stopped before its process started."""
    return record.with_(state=RunState.ENDED, ended_at=now, outcome="CANCELED")


def end_of(storage: Storage, records: RunRecords, record: RunRecord, *, exit_code: int | None, now: str) -> RunRecord:
    """Return the record of a run whose process has ended.

    Args:
        storage: the storage with the events.
        records: the records, with the output of the run.
        record: the run.
        exit_code: the exit code; None if it is unknown, because another server started the process.
        now: the present time, in ISO 8601.
    """
    if records.is_claimed(record.update_id):
        outcome, error = recorded_end(storage, record.update_id) or "LOST", None
    else:
        outcome = _outcome_of(exit_code, is_stopped=StopRequests(storage).of(record.update_id) is not None)
        error = record.error
        outcome = outcome if error is None else "FAILED"
    if outcome in {"FAILED", "LOST"}:
        error = error or last_words(records, record.update_id) or silent_end(exit_code)
    return record.with_(state=RunState.ENDED, ended_at=now, exit_code=exit_code, outcome=outcome, error=error)


def owner_of(storage: Storage, records: RunRecords, update_id: str) -> str | None:
    """Return the name of the pipeline of an update, because several may share a storage; None if it is unknown."""
    record = records.read(update_id)
    if record is not None:
        return record.pipeline
    return next((event.origin.pipeline_name for event in read_events(storage, update_id=update_id)), None)


def recorded_end(storage: Storage, update_id: str) -> str | None:
    """Return the state in which an update ended, by its events; None if it has not."""
    events = read_events(storage, type=EventType.UPDATE_PROGRESS, update_id=update_id)
    states = [event.details.get(EventType.UPDATE_PROGRESS.value, {}).get("state") for event in events]
    return next((state for state in states if state in ENDED), None)


def _outcome_of(exit_code: int | None, *, is_stopped: bool) -> str:
    if exit_code == 0:
        return "COMPLETED"
    if exit_code in _STOPPED or is_stopped:
        return "CANCELED"
    return "LOST" if exit_code is None or exit_code < 0 else "FAILED"


def silent_end(exit_code: int | None) -> str | None:
    """Return what is known about a process that has ended without an error of ours."""
    if exit_code is None or exit_code < 0:
        return None  # it was killed, or another server started it
    return f"Its process ended with the exit code {exit_code}, and without an error of Sluice. Its output has more."


def last_words(records: RunRecords, update_id: str) -> str | None:
    """Return the last error of ours in the output of a run; None without one.

    Everybody who sees the update sees its error, as that of an event. The rest of the output may have rows, for example
    in what the project prints, so only those who may read rows read it, from its file.
    """
    found = records.log_text(update_id)
    errors = [] if found is None else [each for each in _ERROR.finditer(found[0]) if is_known(each[1])]
    return errors[-1][0].strip()[:_LONGEST] if errors else None
