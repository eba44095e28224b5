"""The schedules of a pipeline: the trigger of its spec, and those of the `schedules.yml` beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from framework.declare.pipeline_spec import PipelineSpec
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.quartz import parse_quartz
from framework.foundation.time_zones import known_zone
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml
from framework.operations.scheduling.schedule import Misfire, Overlap, Schedule

FILE_NAME = "schedules.yml"
SPEC_TRIGGER = "trigger"
"""The name of the schedule in the spec."""
_YAML = YamlFormat(
    node=YamlNode,
    unreadable="SCHEDULES_UNREADABLE",
    invalid="SCHEDULES_INVALID_YAML",
    may_be_empty=True,
    at_keys=True,
)
_Value = TypeVar("_Value")


def read_schedules(spec: PipelineSpec) -> tuple[Schedule, ...]:
    """Return the schedules of a pipeline.

    Raises:
        UserError: SCHEDULES_UNREADABLE, SCHEDULES_INVALID_YAML.
        GraphErrors: every SCHEDULE_INVALID.
    """
    found: list[Schedule] = []
    if spec.trigger is not None:
        cron, zone = spec.trigger.schedule, spec.trigger.timezone_id
        found.append(Schedule(name=SPEC_TRIGGER, cron=cron, timezone_id=zone))
    file = schedule_file(spec)
    if file is not None and file.is_file():
        found += _of_file(file)
    return tuple(found)


def schedule_file(spec: PipelineSpec) -> Path | None:
    """Return the place of the file of schedules beside a spec, which need not exist; None for a spec without a file."""
    return None if spec.file is None else Path(spec.file).with_name(FILE_NAME)


def _of_file(file: Path) -> list[Schedule]:
    document = read_yaml(file, _YAML)
    values = document.plain()
    entries = values.get("schedules") or {}
    errors: list[SluiceError] = [
        _invalid(document, (key,), f"`{key}`", f"it is unknown here.{nearest_hint(key, ('schedules',))}")
        for key in values
        if key != "schedules"
    ]
    found = []
    if not isinstance(entries, dict):
        errors.append(_invalid(document, ("schedules",), "`schedules`", "it is a mapping from names to schedules."))
        entries = {}
    for name, settings in entries.items():
        try:
            found.append(_schedule(name, settings))
        except _InvalidError as error:
            keys = ("schedules", name, *((error.key,) if error.key else ()))
            what = f"Schedule {name}" + (f", `{error.key}`" if error.key else "")
            errors.append(_invalid(document, keys, what, str(error)))
    if errors:
        raise GraphErrors(errors)
    return found


def _invalid(document: YamlNode, keys: tuple[str, ...], what: str, problem: str) -> UserError:
    return UserError("SCHEDULE_INVALID", location=document.location_of(*keys), what=what, problem=problem)


class _InvalidError(ValueError):
    """A problem of one schedule, in one of its settings."""

    def __init__(self, problem: str, key: str = "") -> None:
        super().__init__(problem)
        self.key = key


def _schedule(name: str, settings: Any) -> Schedule:
    if not isinstance(settings, dict):
        msg = "it is a mapping with `quartz_cron_schedule` or `on_data`."
        raise _InvalidError(msg)
    if not name.isprintable() or not name.strip() or "/" in name or name == SPEC_TRIGGER:
        msg = f"a name is one line without `/`, and `{SPEC_TRIGGER}` is the one of the spec."
        raise _InvalidError(msg)
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in _READERS:
            msg = f"it is not a setting.{nearest_hint(str(key), tuple(_READERS))}"
            raise _InvalidError(msg, str(key))
        field, read = _READERS[key]
        try:
            values[field] = read(value)
        except ValueError as error:
            raise _InvalidError(str(error), key) from error
    if "cron" not in values and not values.get("on_data"):
        msg = "it has neither `quartz_cron_schedule` nor `on_data: true`, so it would never run."
        raise _InvalidError(msg)
    if "cron" in values and values.get("on_data"):
        msg = "a schedule has times or waits for data; write two schedules for both."
        raise _InvalidError(msg, "on_data")
    return Schedule(name=name, **values)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        msg = "it is not a text."
        raise ValueError(msg)
    return value


def _flag(value: object) -> bool:
    if value is not True and value is not False:
        msg = "it is not true or false."
        raise ValueError(msg)
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 31_536_000:
        msg = "it is not a number of seconds from 0 to a year."
        raise ValueError(msg)
    return float(value)


def _timeout(value: object) -> float:
    seconds = _seconds(value)
    if not seconds:
        msg = "it is not more than 0 seconds; leave it out for no limit."
        raise ValueError(msg)
    return seconds


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        msg = "it is not a number from 0 to 100."
        raise ValueError(msg)
    return value


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each.strip() for each in value):
        msg = "it is not a list of names of datasets."
        raise ValueError(msg)
    return tuple(value)


def _one_of(kind: type[_Value]) -> Callable[[object], _Value]:
    def read(value: object) -> _Value:
        try:
            return kind(value)  # type: ignore[call-arg]
        except ValueError as error:
            msg = f"it is not one of {', '.join(map(str, kind))}."  # type: ignore[call-overload]
            raise ValueError(msg) from error

    return read


_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "quartz_cron_schedule": ("cron", lambda value: parse_quartz(_text(value))),
    "timezone_id": ("timezone_id", lambda value: known_zone(_text(value))),
    "on_data": ("on_data", _flag),
    "min_seconds_between_runs": ("min_seconds_between_runs", _seconds),
    "misfire": ("misfire", _one_of(Misfire)),
    "grace_seconds": ("grace_seconds", _seconds),
    "overlap": ("overlap", _one_of(Overlap)),
    "retries": ("retries", _count),
    "backoff_seconds": ("backoff_seconds", _seconds),
    "timeout_seconds": ("timeout_seconds", _timeout),
    "jitter_seconds": ("jitter_seconds", _seconds),
    "refresh_selection": ("refresh", _names),
    "full_refresh_selection": ("full_refresh", _names),
}
