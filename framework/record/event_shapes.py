"""The types of values in the details of events, which readers rely on: another program may have written the line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LARGEST = 2**63
_SELECTIONS = ("refresh_selection", "full_refresh_selection", "reset_checkpoint_selection")
_EXPECTATION = {"name": str, "passed_records": int, "failed_records": int}


def checked_details(event_type: str, details: object) -> Mapping[str, Any]:
    """Return the details of an event; counts that are no numbers are left out.

    Args:
        event_type: the type of the event.
        details: its details, with one key of that name.

    Raises:
        TypeError: they are not those of such an event.
    """
    if not isinstance(details, dict):
        raise TypeError
    own = details.get(event_type, {})
    if not isinstance(own, dict):
        raise TypeError
    if event_type == "update_progress":
        _check_texts(own, "state")
    elif event_type == "flow_progress":
        _check_texts(own, "status")
        if "metrics" in own or "data_quality" in own:
            return {**details, event_type: _with_counts(own)}
    elif event_type == "create_update":
        _check_created(own)
    elif event_type == "operation_progress":
        return {**details, event_type: _with_progress(own)}
    elif event_type == "planning_information":
        techniques = own.get("technique_information") or []
        if not isinstance(techniques, list) or not all(isinstance(each, dict) for each in techniques):
            raise TypeError
    return details


def _check_texts(own: Mapping[str, Any], *names: str) -> None:
    if not all(isinstance(own.get(name, ""), str) for name in names):
        raise TypeError


def _check_created(own: Mapping[str, Any]) -> None:
    texts = all(isinstance(own.get(name), str | None) for name in ("cause", "request_id", "user_name"))
    lists = [own.get(name) or [] for name in _SELECTIONS]
    named = all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in lists)
    if not texts or not named or not _is_count(own.get("attempt", 1)):
        raise TypeError


def _with_counts(own: Mapping[str, Any]) -> dict[str, Any]:
    metrics, quality = own.get("metrics"), own.get("data_quality")
    found = {name: value for name, value in own.items() if name not in {"metrics", "data_quality"}}
    if isinstance(metrics, dict):
        found["metrics"] = {name: value for name, value in metrics.items() if _is_number(value)}
    if _is_quality(quality):
        found["data_quality"] = quality
    return found


def _is_quality(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_count(value.get("dropped_records")):
        return False
    expectations = value.get("expectations")
    return isinstance(expectations, list) and all(
        isinstance(each, dict)
        and all(_is_count(each.get(name)) if kind is int else isinstance(each.get(name), kind)
                for name, kind in _EXPECTATION.items())
        for each in expectations
    )  # fmt: skip


def _with_progress(own: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(own.get("waits_for", ""), str):
        raise TypeError
    if _is_number(own.get("progress_percent", 0)):
        return own
    return {name: value for name, value in own.items() if name != "progress_percent"}


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST  # type: ignore[operator]
