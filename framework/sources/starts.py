"""Starts of sources: where a new checkpoint begins to read, in place of the start in the code.

A start is written as `option=value` or as one word: `startingVersion=12`, `earliest`. Each kind of source has the
reader options of its `starts`; Kafka also has shorter names. A start belongs to one generation of a flow's
checkpoint and is kept in its manifest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from framework.foundation.clock import SystemClock
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.time_zones import zone_of
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import commit_files, latest_version
from framework.sources.port import SourceReference, is_same_location
from framework.sources.stored_lag import kind_named

_VERSION, _TIMESTAMP = "startingVersion", "startingTimestamp"
_WORDS = ("earliest", "latest", "now", "position")
# Options that a start needs besides its own. A start in the past includes files that exist already.
_COMPANIONS: Mapping[str, Mapping[str, str]] = {"modifiedAfter": {"cloudFiles.includeExistingFiles": "true"}}
_KNOWN = re.compile(
    rf"(?:^|:)\s*((?:{_VERSION}|{_TIMESTAMP}|modifiedAfter|startingOffsets|offsets|timestamp)\s*=|(?:{'|'.join(_WORDS)})\s*$)",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]|$)")
_AT_END = re.compile(r"^latest$|=latest$|:\s*-1\b|^cloudFiles\.includeExistingFiles=false$", re.IGNORECASE)
_KAFKA_STARTS = ("earliest", "latest", "timestamp=TIME", 'offsets={"TOPIC":{"PARTITION":OFFSET}}')
_KAFKA_OPTIONS = (
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStart:
    """One start, as the user writes it.

    Args:
        option: the option or word, such as `startingVersion` or `earliest`.
        value: its value; None for a word.
        source: the name of the source; None for the flow's only source.
    """

    option: str
    value: str | None = None
    source: str | None = None

    @property
    def text(self) -> str:
        """Return the start without the name of its source."""
        return self.option if self.value is None else f"{self.option}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStart:
    """Reader options that implement a start.

    Args:
        options: the options to set.
        removed: the options of the code that would contradict them.
    """

    options: Mapping[str, str]
    removed: frozenset[str] = field(default_factory=frozenset)

    def applied(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return a reader's options with this start in place of the start that they contain."""
        gone = {name.lower() for name in self.removed | set(self.options)}
        return {name: value for name, value in options.items() if name.lower() not in gone} | dict(self.options)


def parse_start(text: str) -> SourceStart:
    """Parse `option=value`, a word, or either of them after `source:`.

    Raises:
        UserError: START_INVALID.

    Examples:
        >>> parse_start("startingVersion=12").text
        'startingVersion=12'
        >>> parse_start("orders:earliest")
        SourceStart(option='earliest', value=None, source='orders')
        >>> parse_start("modifiedAfter=2025-04-09T18:15:00").value
        '2025-04-09T18:15:00'
        >>> parse_start("/landing/day=2025-04-09:modifiedAfter=2025-04-10").source
        '/landing/day=2025-04-09'
    """
    known = _KNOWN.search(text)  # the name of a source may have a `=`, as folders such as `date=2025-04-09`
    begin = 0 if known is None else known.start(1)
    head, sign, value = text[begin:].strip().partition("=")
    source, _, option = head.rpartition(":") if known is None else (text[:begin].rstrip().removesuffix(":"), ":", head)
    option, value = option.strip(), value.strip()
    if not option or (sign and not value) or (not sign and option.lower() not in _WORDS):
        raise UserError("START_INVALID", start=text)
    return SourceStart(option=option, value=value if sign else None, source=source.strip() or None)


def reader_start(kind: str, start: SourceStart, *, source: str, zone: str = "UTC") -> ReaderStart:
    """Return the reader options of a start.

    Args:
        kind: the kind of the source.
        start: the start.
        source: the source's name, for errors.
        zone: the time zone of a time without one.

    Raises:
        UserError: START_NOT_SUPPORTED, START_INVALID.
    """
    if kind == "kafka":
        return ReaderStart(options=_kafka_options(start, source, zone), removed=frozenset(_KAFKA_OPTIONS))
    known = {name.lower(): name for name in kind_named(kind).starts}
    option = known.get(start.option.lower())
    if option is None or start.value is None:
        raise _not_supported(kind, start, source)
    _check_value(option, start)
    removed = set(known.values()) - {option}
    if kind == "cloud_files":  # the prefix is another spelling of the same option
        removed |= {f"cloudFiles.{name}" for name in known.values()}
    return ReaderStart(options={option: start.value, **_COMPANIONS.get(option, {})}, removed=frozenset(removed))


def started(source: SourceReference, start: SourceStart) -> SourceReference:
    """Return a source with the start of a generation; unchanged if its reference holds no reader options.

    Raises:
        UserError: START_NOT_SUPPORTED, START_INVALID.
    """
    if source.kind != "cloud_files" or not source.details:
        return source
    mark = json.loads(source.details)
    found = reader_start(source.kind, start, source=str(source.location), zone=mark.get("zone", "UTC"))
    options = {name.lower(): value for name, value in found.applied(mark["options"]).items()}
    return replace(source, details=json.dumps({**mark, "options": options}))


def is_at_end(begin: str) -> bool:
    """Return whether a new stream at this start skips data that arrived after an earlier stream began there.

    Args:
        begin: a start of the code or of a user, as `option=value` or a word.

    Examples:
        >>> [is_at_end(each) for each in ("startingVersion=latest", "latest", 'startingOffsets={"t":{"0":-1}}')]
        [True, True, True]
        >>> [is_at_end(each) for each in ("", "startingVersion=12", "modifiedAfter=2025-04-09", "earliest")]
        [False, False, False, False]
    """
    return _AT_END.search(begin) is not None


def may_move(begin: str) -> bool:
    """Return whether the version of a Delta start, as `option=value`, depends on when the stream begins."""
    option, _, value = begin.lower().partition("=")
    return option == _TIMESTAMP.lower() or (option == _VERSION.lower() and value == "latest")


def pin_start(storage: Storage, source: SourceReference, start: SourceStart, zone: str = "UTC") -> SourceStart:
    """Pin a start: `latest` becomes the next version of a Delta table, and a time of files gets a zone.

    A query that begins at `latest` and finds nothing to read stores no position. The next query would begin at the
    version that is the latest by then, and skip the commits in between. Delta refuses a time after the last commit;
    with such a time that is not in the future, all later commits are read. A time of files gets its zone, because the
    session's zone may change later, which would select different files.

    Args:
        storage: reads the log of a table.
        source: the source.
        start: its start.
        zone: the time zone in which Delta reads a time without one.

    Raises:
        UserError: START_NOT_AVAILABLE if a Delta table lacks the version; the error lists the available versions.
    """
    if source.kind == "cloud_files" and start.option.lower() == "modifiedafter":
        zone = json.loads(source.details or "{}").get("zone", "UTC")
        return replace(start, value=_time(start, zone).astimezone(UTC).isoformat())
    if source.kind != "delta" or start.option.lower() not in {_VERSION.lower(), _TIMESTAMP.lower()}:
        return start
    path = str(source.location)
    last = latest_version(storage, path)
    if last is None:
        return start
    if start.option.lower() == _TIMESTAMP.lower():
        after = _is_after(storage, path, last, start, zone)
        return replace(start, option=_VERSION, value=str(last + 1)) if after else start
    if start.value == "latest":
        return replace(start, value=str(last + 1))
    version, first = int(start.value or 0), min(commit_files(storage, path), default=0)
    if not first <= version <= last + 1:
        raise UserError("START_NOT_AVAILABLE", source=path, version=version, first=first, last=last)
    return start


def _is_after(storage: Storage, path: str, last: int, start: SourceStart, zone: str) -> bool:
    """Return whether a time has passed and is later than the last commit of a table."""
    try:
        time_ms = _time(start, zone).timestamp() * 1000
    except UserError:  # Spark accepts more formats of times, and refuses the rest
        return False
    history = CommitHistory(storage, path)
    return last in history.versions and history.time_ms(last) < time_ms <= SystemClock().now().timestamp() * 1000


def awaits_version(storage: Storage, source: SourceReference, start: SourceStart) -> bool:
    """Return whether a start names a version of a Delta table that is not committed yet."""
    named = source.kind == "delta" and start.option.lower() == _VERSION.lower() and str(start.value).isdecimal()
    return named and int(start.value or 0) > (latest_version(storage, str(source.location)) or 0)


def starts_text(starts: Mapping[str, SourceStart]) -> str:
    """Return the starts of a generation by source, as the manifest stores them."""
    return json.dumps({source: starts[source].text for source in sorted(starts)}, ensure_ascii=False)


def parse_starts(text: str | None) -> dict[str, SourceStart]:
    """Parse the starts of a generation by source; {} if it has none of its own."""
    found = json.loads(text) if text else {}
    return {source: parse_start(start) for source, start in found.items()}


def start_of(starts: Mapping[str, SourceStart], name: str, begin: str = "") -> SourceStart | None:
    """Return the start of a source by its name; another spelling of a path is the same source.

    Args:
        starts: the starts of a generation.
        name: the name of the source.
        begin: the start that the code gives, if one read of a table has a start of its own; see `name_of_one`.
    """
    found = (start for other, start in starts.items() if is_same_location(other, name))
    start = starts.get(name) or next(found, None)
    return start_of(starts, name_of_one(name, begin)) if start is None and begin else start


def name_of_one(name: str, begin: str) -> str:
    """Return the name of a start for the reads of a table that begin at `begin`, if other reads begin elsewhere."""
    return f"{name} ({begin})"


def _kafka_options(start: SourceStart, source: str, zone: str) -> dict[str, str]:
    option, value = start.option.lower(), start.value
    if option in {"earliest", "latest"} and value is None:
        return {"startingOffsets": option}
    if option in {"offsets", "startingoffsets"} and value is not None:
        return {"startingOffsets": value if value in {"earliest", "latest"} else _offsets(start)}
    if option in {"timestamp", "startingtimestamp"} and value is not None:
        # A partition without a record at or after that time starts at its end.
        return {"startingTimestamp": _milliseconds(start, zone), "startingOffsetsByTimestampStrategy": "latest"}
    raise _not_supported("kafka", start, source)


def _offsets(start: SourceStart) -> str:
    try:
        found = json.loads(start.value or "")
        valid = bool(found) and all(isinstance(each, int) for topic in found.values() for each in topic.values())
    except (ValueError, AttributeError, RecursionError):
        valid = False
    if not valid:
        raise UserError("START_INVALID", start=start.text)
    return start.value or ""


def _milliseconds(start: SourceStart, zone: str) -> str:
    text = start.value or ""
    if text.isdecimal():
        return text
    return str(round(_time(start, zone).timestamp() * 1000))


def _time(start: SourceStart, zone: str) -> datetime:
    text = start.value or ""
    try:
        if _DATE.match(text) is None:  # `fromisoformat` accepts any digits as a date, such as milliseconds
            raise ValueError(text)  # noqa: TRY301 - becomes the condition below
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=zone_of(zone))).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UserError("START_INVALID", start=start.text) from error


def _check_value(option: str, start: SourceStart) -> None:
    value = start.value or ""
    if option == _VERSION:
        if not (value.isdecimal() or value == "latest"):
            raise UserError("START_INVALID", start=start.text)
    elif option in {_TIMESTAMP, "modifiedAfter"}:
        _time(start, "UTC")


def _not_supported(kind: str, start: SourceStart, source: str) -> UserError:
    possible = _KAFKA_STARTS if kind == "kafka" else [f"{name}=…" for name in kind_named(kind).starts]
    return UserError("START_NOT_SUPPORTED", start=start.text, source=source, possible=_listed(possible))


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return f"Its starts are {', '.join(f'`{name}`' for name in found)}." if found else "It has no start to choose."
