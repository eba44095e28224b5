"""One constructor for each event type, so that all events of a type have details of the same shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from framework.foundation.errors import SluiceError
from framework.foundation.secrets.secrecy import hide_in_text, is_secret_name
from framework.record.events import EventDraft, EventError, EventLevel, EventType

_REDACTED = "[REDACTED]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationRecord:
    """The number of records that met an expectation of a dataset, and the number that failed it."""

    name: str
    dataset: str
    passed_records: int
    failed_records: int


def create_update(
    *,
    cause: str,
    full_refresh: bool = False,
    refresh_selection: Sequence[str] = (),
    full_refresh_selection: Sequence[str] = (),
    reset_checkpoint_selection: Sequence[str] = (),
    continuous: bool = False,
    request_id: str | None = None,
    attempt: int = 1,
    user_name: str | None = None,
) -> EventDraft:
    """Draft the event of a requested update. Names are fully qualified; `cause` is a text such as USER_ACTION.

    All attempts of one request share its `request_id`; `user_name` is the user who started the update.
    """
    details = {
        "cause": cause,
        "full_refresh": full_refresh,
        "refresh_selection": list(refresh_selection),
        "full_refresh_selection": list(full_refresh_selection),
        "reset_checkpoint_selection": list(reset_checkpoint_selection),
        "validate_only": False,
        "continuous": continuous,
        "request_id": request_id,
        "attempt": attempt,
        "user_name": user_name,
    }
    again = f" Attempt {attempt} of request {request_id}." if attempt > 1 else ""
    return _draft(EventType.CREATE_UPDATE, f"Update created by {cause}.{again}", details)


def user_action(
    *,
    action: str,
    user_name: str | None = None,
    message: str | None = None,
    reason: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> EventDraft:
    """Draft the event of a user's action on the pipeline, such as START, STOP, RESET_CHECKPOINT or ROLLBACK.

    Args:
        action: the action.
        user_name: who did it; None if the system has no user name.
        message: one sentence for users in place of the default message.
        reason: the reason in the user's words.
        more: further details of the action.
    """
    text = message or f"{user_name or 'A user'}: {action}."
    details = {"action": action, "user_name": user_name, "reason": reason, **(more or {})}
    return _draft(EventType.USER_ACTION, text, details)


def update_progress(
    *, state: str, error: EventError | None = None, message: str | None = None, duration_seconds: float | None = None
) -> EventDraft:
    """Draft the event of an update's new state."""
    details: dict[str, Any] = {"state": state}
    if duration_seconds is not None:
        details["duration_ms"] = round(duration_seconds * 1000)
    level = EventLevel.ERROR if state == "FAILED" else EventLevel.INFO
    return _draft(EventType.UPDATE_PROGRESS, message or f"The update is {state}.", details, level=level, error=error)


def flow_progress(
    *,
    flow: str,
    dataset: str,
    status: str,
    metrics: Mapping[str, int | float] | None = None,
    quality: Mapping[str, Any] | None = None,
    error: EventError | None = None,
    message: str | None = None,
) -> EventDraft:
    """Draft the event of a flow's new state, or of rows that it wrote.

    Args:
        flow: the flow's full name.
        dataset: its target's full name.
        status: a flow state such as RUNNING or COMPLETED.
        metrics: num_output_rows, num_upserted_rows, num_deleted_rows, num_late_rows, num_quarantined_rows,
            backlog_bytes, backlog_files, backlog_records, backlog_seconds; of one batch while RUNNING, of the whole run
            at its end.
        quality: the result of `data_quality`.
        error: why the flow failed.
        message: one sentence for users in place of the default message.
    """
    details: dict[str, Any] = {"status": status}
    if metrics:
        details["metrics"] = dict(metrics)
    if quality:
        details["data_quality"] = dict(quality)
    level = {"FAILED": EventLevel.ERROR, "SKIPPED": EventLevel.WARN}.get(status, EventLevel.INFO)
    if status == "RUNNING" and (metrics or quality):
        level = EventLevel.METRICS
    text = message or f"Flow {flow} is {status}."
    return _draft(EventType.FLOW_PROGRESS, text, details, level=level, dataset=dataset, flow=flow, error=error)


def data_quality(*, dropped_records: int, expectations: Sequence[ExpectationRecord]) -> dict[str, Any]:
    """Return the counts of a flow's expectations, for `flow_progress`."""
    return {"dropped_records": dropped_records, "expectations": [asdict(each) for each in expectations]}


def flow_definition(
    *,
    flow: str,
    dataset: str,
    flow_type: str,
    input_datasets: Sequence[str] = (),
    once: bool = False,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> EventDraft:
    """Draft the definition of a flow: its inputs, its target and its `flow_type` (APPEND, CHANGE, COMPLETE)."""
    details = {
        "output_dataset": dataset,
        "input_datasets": list(input_datasets),
        "flow_type": flow_type,
        "once": once,
        "comment": comment,
        "spark_conf": _redact(spark_conf or {}),
    }
    return _draft(EventType.FLOW_DEFINITION, f"Flow {flow} writes {dataset}.", details, dataset=dataset, flow=flow)


def dataset_definition(
    *,
    dataset: str,
    dataset_type: str,
    num_flows: int,
    schema: str | None = None,
    storage_location: str | None = None,
    partition_columns: Sequence[str] = (),
    table_properties: Mapping[str, str] | None = None,
    expectations: Sequence[Mapping[str, str]] = (),
    comment: str | None = None,
) -> EventDraft:
    """Draft the definition of a dataset; `expectations` have name, condition and action; `schema` is JSON or DDL."""
    details = {
        "dataset_type": dataset_type,
        "num_flows": num_flows,
        "schema": schema,
        "storage_location": storage_location,
        "partition_columns": list(partition_columns),
        "table_properties": dict(table_properties or {}),
        "expectations": [dict(each) for each in expectations],
        "comment": comment,
    }
    return _draft(EventType.DATASET_DEFINITION, f"Dataset {dataset} is a {dataset_type}.", details, dataset=dataset)


def sink_definition(*, sink: str, format: str, options: Mapping[str, str] | None = None) -> EventDraft:
    """Draft the definition of a sink; options that look like secrets are redacted."""
    details = {"format": format, "options": _redact(options or {})}
    return _draft(EventType.SINK_DEFINITION, f"Sink {sink} has format {format}.", details, dataset=sink)


def planning_information(*, dataset: str, technique: str, reason: str, flow: str | None = None) -> EventDraft:
    """Draft the event of a dataset's refresh technique, such as NO_OP or REBUILD, and its reason."""
    details = {
        "technique_information": [{"maintenance_type": f"MAINTENANCE_TYPE_{technique}", "is_chosen": True}],
        "reason": reason,
    }
    return _draft(EventType.PLANNING_INFORMATION, f"{dataset}: {reason}.", details, dataset=dataset, flow=flow)


def incomplete_dataset(*, dataset: str, condition: str, text: str) -> EventDraft:
    """Draft the event of a dataset that lacks rows although its flows run; `text` says which rows, and what to do."""
    details = {"condition": condition, "reason": text}
    message = f"{dataset}: [{condition}] {text}"
    return _draft(EventType.PLANNING_INFORMATION, message, details, level=EventLevel.WARN, dataset=dataset)


def warned(error: SluiceError) -> EventDraft:
    """Draft the event of an error that stops nothing, for users who watch the update."""
    text = f"{error.what} {error.remedy}".strip()
    details = {"condition": error.condition, "reason": text}
    return _draft(EventType.PLANNING_INFORMATION, f"[{error.condition}] {text}", details, level=EventLevel.WARN)


def waiting_operation(*, operation: str, dataset: str, flow: str, text: str) -> EventDraft:
    """Draft the event that a long operation waits; an empty text means that it continues."""
    details = {"type": operation, "status": "WAITING" if text else "IN_PROGRESS", "waits_for": text}
    return _draft(
        EventType.OPERATION_PROGRESS,
        text or f"{operation} waits no longer.",
        details,
        level=EventLevel.WARN if text else EventLevel.INFO,
        dataset=dataset,
        flow=flow,
    )


def operation_progress(
    *,
    operation: str,
    status: str,
    dataset: str | None = None,
    flow: str | None = None,
    progress_percent: float | None = None,
    estimated_completion_ms: int | None = None,
    error: EventError | None = None,
) -> EventDraft:
    """Draft the event that a long operation (CDC_SNAPSHOT, AUTO_LOADER_LISTING) starts, progresses or ends."""
    details = {
        "type": operation,
        "status": status,
        "progress_percent": progress_percent,
        "estimated_completion_ms": estimated_completion_ms,
    }
    level = EventLevel.ERROR if status == "FAILED" else EventLevel.INFO
    text = f"{operation} is {status}."
    return _draft(EventType.OPERATION_PROGRESS, text, details, level=level, dataset=dataset, flow=flow, error=error)


def stream_progress(*, flow: str, dataset: str, progress: Mapping[str, Any]) -> EventDraft:
    """Draft the event of a completed micro-batch; `progress` is the result of `progress.stream_details`."""
    return _draft(
        EventType.STREAM_PROGRESS,
        f"Flow {flow} finished micro-batch {progress.get('batch_id')}.",
        {"progress": dict(progress)},
        level=EventLevel.METRICS,
        dataset=dataset,
        flow=flow,
    )


def hook_progress(*, hook: str, status: str, message: str, error: EventError | None = None) -> EventDraft:
    """Draft the event that a hook or an observer failed, was disabled, or missed events."""
    details = {"name": hook, "status": status}
    return _draft(EventType.HOOK_PROGRESS, message, details, level=EventLevel.WARN, error=error)


def _draft(
    event_type: EventType,
    message: str,
    details: Mapping[str, Any],
    *,
    level: EventLevel = EventLevel.INFO,
    dataset: str | None = None,
    flow: str | None = None,
    error: EventError | None = None,
) -> EventDraft:
    given = {key: value for key, value in details.items() if value is not None}
    return EventDraft(
        event_type=event_type,
        message=message,
        level=level,
        dataset=dataset,
        flow=flow,
        error=error,
        details={str(event_type): given},
    )


def _redact(options: Mapping[str, str]) -> dict[str, str]:
    return {key: _REDACTED if is_secret_name(key) else hide_in_text(value) for key, value in options.items()}
