"""Validation of the options of a `cloudFiles` reader: an option that can't be honoured is an error, never ignored.

Auto Loader options that change no row here are noted, and so are the options of other formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NoReturn

from framework.foundation.errors import UserError
from framework.foundation.time_zones import zone_of
from framework.sources.cloud_files.settings.globs import glob_pattern
from framework.sources.cloud_files.settings.option_names import (
    NO_EFFECT,
    OPTIONS,
    OWN,
    PREFIX,
    REFUSED,
    hint_of_plain,
    hint_of_prefixed,
    is_of_hadoop,
    other_formats,
    plain_options,
    reason_of,
)
from framework.sources.cloud_files.settings.options import (
    ADDING,
    FIXED,
    FORMATS,
    RECORDS_OF_TEXT,
    SELF_TYPED,
    Cleaning,
    CloudFilesOptions,
    EvolutionMode,
    folder_before_glob,
    real_folder,
)

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MOST_DIGITS = 9
_INTERVAL = re.compile(r"(\d+)\s*(second|minute|hour|day|week|month|year)s?", re.IGNORECASE)
_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_678_400,
    "year": 31_622_400,
}
"""Months and years count with their longest length, so that no file is removed too early."""
_SHORTEST_DELETE = 7 * 86_400
"""Lakeflow deletes files only after more than seven days."""


def reader_options(given: Mapping[str, str]) -> dict[str, str]:
    """Convert `read_files` options, which have no prefix and infer types, to options of a `cloudFiles` reader."""
    own = {name.lower() for name in OPTIONS} | set(NO_EFFECT)
    is_own = {name: name.lower() in own or name.lower().startswith("resourcetag.") for name in given}
    named = {f"cloudFiles.{name}" if is_own[name] else name: value for name, value in given.items()}
    infers = any(name.lower() == "infercolumntypes" for name in given)
    return named if infers else {"cloudFiles.inferColumnTypes": "true", **named}


def parse_options(path: str | None, given: Mapping[str, str], *, has_schema: bool, zone: str) -> CloudFilesOptions:
    """Check the options of a reader.

    Args:
        path: the argument of `load`; None if it has none.
        given: the reader's options, as the user spells them.
        has_schema: whether the reader has a schema.
        zone: the session's time zone, for times without one.

    Raises:
        UserError: CLOUD_FILES_OPTION_UNKNOWN, _MISSING, _INVALID, _UNSUPPORTED or _CONFLICT, with the option.
    """
    return _Given(given).parsed(path, has_schema=has_schema, zone=zone)


class _Given:
    """The options as given."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._known = {name.lower(): name for name in OPTIONS}
        self._spelled = {name.lower(): name for name in given}
        lower = {name.lower(): value for name, value in given.items()}
        self._own = {key.removeprefix(PREFIX): value for key, value in lower.items() if key.startswith(PREFIX)}
        for key, value in lower.items():
            if key in OWN and self._own.setdefault(key, value) != value:
                name = self._known.get(key, self._spelled[key])
                _refuse_both(f"cloudFiles.{name} = {self._own[key]}", f"{name} = {value}", "both name one option")
        self._reader = {k: v for k, v in lower.items() if not k.startswith(PREFIX) and k not in OWN}
        self._without_effect: dict[str, str] = {}

    def _check_names(self, kind: str) -> None:
        """Refuse unknown names, and note options that change no row.

        Raises:
            UserError: CLOUD_FILES_OPTION_UNKNOWN, CLOUD_FILES_OPTION_UNSUPPORTED.
        """
        for key, spelled in self._spelled.items():
            name = key.removeprefix(PREFIX)
            refused = reason_of(name, REFUSED)
            if refused is not None and (key == name or name not in self._known):
                self._refuse(spelled, self._own.get(name, self._reader.get(name, "")), refused)
            why = reason_of(name, NO_EFFECT)
            if why is not None and not (name in plain_options(kind) and key == name):
                self._without_effect[spelled] = why
                self._reader.pop(key, None)
            elif key != name and name not in self._known and name not in OWN:
                self._unknown(key, hint_of_prefixed(spelled[len(PREFIX) :]))
            elif key in self._reader and key not in plain_options(kind) and not is_of_hadoop(key):
                self._check_plain(key, kind)

    def _check_plain(self, key: str, kind: str) -> None:
        """Refuse an option that resembles an option of the format; note any other that the format lacks."""
        others = [other for other in other_formats(key) if other != kind]
        if key == "mergeschema":
            self._without_effect[self._spelled[key]] = f"the columns of all {kind} files are merged without it"
        elif key in self._known:  # Auto Loader checks names with its prefix only
            self._without_effect[self._spelled[key]] = f"its name is `cloudFiles.{self._known[key]}`"
            del self._reader[key]
        elif others:
            why = f"it is an option of {' and '.join(others)}, and the format is {kind}"
            self._without_effect[self._spelled[key]] = why
        elif hint := hint_of_plain(self._spelled[key], kind):
            self._unknown(key, hint)
        else:
            self._without_effect[self._spelled[key]] = "no format has it"
            del self._reader[key]

    def _unknown(self, key: str, hint: str) -> None:
        if self._flag("validateOptions", default=True):
            raise UserError("CLOUD_FILES_OPTION_UNKNOWN", option=self._spelled[key], hint=hint)
        why = "it is unknown, and `cloudFiles.validateOptions` is false"
        meant = re.search("Did you mean (`.*`)", hint)
        self._without_effect[self._spelled[key]] = f"{why}; did you mean {meant[1]}?" if meant else why
        self._reader.pop(key, None)

    def parsed(self, path: str | None, *, has_schema: bool, zone: str) -> CloudFilesOptions:
        folder = path or self._own.get("path")
        if not folder:
            raise UserError("CLOUD_FILES_OPTION_MISSING", option="path")
        mode, cleaning = self._mode(has_schema=has_schema), self._cleaning()
        name = self._format()
        self._check_names(name)
        if name == "xml" and not self._reader.get("rowtag"):
            raise UserError("CLOUD_FILES_OPTION_MISSING", option="rowTag")
        after, before = self._time("modifiedAfter", zone), self._time("modifiedBefore", zone)
        if after is not None and before is not None and after >= before:
            why = "no file has been modified after the one and before the other"
            _refuse_both("modifiedAfter", "modifiedBefore", why)
        infers_csv = name == "csv" and not has_schema
        rescued = self._rescued(name, mode, has_schema=has_schema)
        self._refuse_lost_records(name, rescued)
        return CloudFilesOptions(
            path=folder,
            format=name,
            mode=mode,
            rescued=rescued,
            infers_types=self._flag("inferColumnTypes", default=False) or name in SELF_TYPED,
            hints=self._hints(name, has_schema=has_schema),
            schema_location=self._own.get("schemalocation"),
            include_existing=self._flag("includeExistingFiles", default=True),
            max_files=self._number("maxFilesPerTrigger", 1000),
            max_bytes=self._size("maxBytesPerTrigger"),
            allow_overwrites=self._flag("allowOverwrites", default=False),
            modified_after=after,
            modified_before=before,
            glob=self._glob(),
            partition_columns=self._partitions(rescued, has_schema=has_schema),
            has_schema=has_schema,
            cleaning=cleaning,
            retention_seconds=self._retention(cleaning),
            move_destination=self._destination(cleaning, folder),
            # Lakeflow assumes that CSV files have headers when it infers their columns.
            is_case_sensitive=self._case(name),
            skip_rows=self._skipped(name),
            without_effect=tuple(self._without_effect.items()),
            reader=tuple(sorted(({"header": "true"} | self._reader if infers_csv else self._reader).items())),
        )

    def _refuse_lost_records(self, name: str, rescued: str | None) -> None:
        """Refuse options that would keep malformed records out of the rescued column."""
        if rescued is None or name not in RECORDS_OF_TEXT:
            return
        if self._reader.get("mode", "").upper() == "DROPMALFORMED":
            why = "records whose values do not fit would be dropped in place of being rescued"
            _refuse_both("mode = DROPMALFORMED", f"rescuedDataColumn = {rescued}", why)
        if "columnnameofcorruptrecord" in self._reader:
            why = "records that can't be parsed are in the rescued column"
            if self._reader["columnnameofcorruptrecord"] == "_corrupt_record":  # Spark's default
                self._without_effect[self._spelled["columnnameofcorruptrecord"]] = why
                del self._reader["columnnameofcorruptrecord"]
                return
            _refuse_both("columnNameOfCorruptRecord", f"rescuedDataColumn = {rescued}", why)

    def _hints(self, name: str, *, has_schema: bool) -> str:
        found = self._own.get("schemahints", "").strip()
        if found and (has_schema or name in FIXED):
            second = "schema" if has_schema else f"cloudFiles.format = {name}"
            _refuse_both("cloudFiles.schemaHints", second, "its columns have their types, and nothing is inferred")
        return found

    def _partitions(self, rescued: str | None, *, has_schema: bool) -> tuple[str, ...] | None:
        found = self._own.get("partitioncolumns")
        if found is None:
            return () if has_schema or self._flag("recursiveFileLookup", default=False) else None
        names = tuple(column.strip() for column in found.split(",") if column.strip())
        lower = [name.lower() for name in names]
        if len(set(lower)) < len(lower):
            raise self._invalid("partitionColumns", "different names, separated by commas")
        if rescued is not None and rescued.lower() in lower:
            why = "a column has one content"
            _refuse_both(f"cloudFiles.partitionColumns = {found}", f"rescuedDataColumn = {rescued}", why)
        return names

    def _cleaning(self) -> Cleaning:
        found = self._own.get("cleansource", "OFF").strip().upper()
        if found not in set(Cleaning):
            raise self._invalid("cleanSource", f"one of {', '.join(Cleaning)}")
        if found == Cleaning.OFF:
            for name in ("cleanSource.retentionDuration", "cleanSource.moveDestination"):
                if name.lower() in self._own:
                    self._refuse(name, self._own[name.lower()], "`cleanSource` is OFF")
        return Cleaning(found)

    def _retention(self, cleaning: Cleaning) -> float:
        text = self._own.get("cleansource.retentionduration", "30 days").strip()
        parts = _INTERVAL.findall(text)
        if not parts or _INTERVAL.sub("", text.lower().removeprefix("interval")).strip():
            raise self._invalid("cleanSource.retentionDuration", "an interval, such as 14 days")
        seconds = sum(int(count) * _SECONDS[unit.lower()] for count, unit in parts)
        if cleaning is Cleaning.DELETE and seconds <= _SHORTEST_DELETE:
            raise self._invalid("cleanSource.retentionDuration", "longer than 7 days if `cleanSource` is DELETE")
        return seconds

    def _destination(self, cleaning: Cleaning, folder: str) -> str | None:
        found = self._own.get("cleansource.movedestination", "").strip().rstrip("/")
        if cleaning is Cleaning.DELETE and found:
            name = "cloudFiles.cleanSource.moveDestination"
            _refuse_both("cloudFiles.cleanSource = DELETE", name, "deleted files are not moved")
        if cleaning is not Cleaning.MOVE:
            return None
        if not found:
            raise UserError("CLOUD_FILES_OPTION_MISSING", option="cloudFiles.cleanSource.moveDestination")
        if f"{real_folder(found)}/".startswith(f"{real_folder(folder_before_glob(folder))}/"):
            why = "files that are moved into the folder would be read again"
            _refuse_both("cloudFiles.cleanSource.moveDestination", "path", why)
        return found

    def _case(self, kind: str) -> bool:
        """Return the value of `readerCaseSensitive`, or of its older name, which CSV has."""
        if "parsercasesensitive" in self._own and kind != "csv":
            self._unknown("parsercasesensitive", " Did you mean `readerCaseSensitive`?")
        older = self._flag("parserCaseSensitive", default=True)
        return self._flag("readerCaseSensitive", default=older)

    def _skipped(self, kind: str) -> int:
        found = self._own.get("skiprows", "0").strip()
        if not found.isascii() or not found.isdigit() or len(found) > _MOST_DIGITS:
            raise self._invalid("skipRows", "a whole number of at least 0")
        if kind != "csv" and "skiprows" in self._own:
            self._refuse("skipRows", found, f"{kind} files have no rows before their records")
        mode = self._reader.get("mode", "PERMISSIVE").upper()
        if int(found) and mode != "PERMISSIVE":
            _refuse_both(f"skipRows = {found}", f"mode = {mode}", "the skipped rows are no records of the file")
        return int(found)

    def _refuse(self, name: str, value: str, why: str) -> None:
        option = self._spelled.get(name.lower()) or self._spelled.get(f"{PREFIX}{name.lower()}", name)
        raise UserError("CLOUD_FILES_OPTION_UNSUPPORTED", option=option, value=value, why=why)

    def _format(self) -> str:
        found = self._own.get("format")
        if found is None:
            raise UserError("CLOUD_FILES_OPTION_MISSING", option="cloudFiles.format")
        names = {name.lower(): name for name in FORMATS}
        if found.lower() not in names:
            raise self._invalid("format", f"one of {', '.join(FORMATS)}")
        return names[found.lower()]

    def _mode(self, *, has_schema: bool) -> EvolutionMode:
        found = self._own.get("schemaevolutionmode")
        if found is None:
            return EvolutionMode.NONE if has_schema else EvolutionMode.ADD
        modes = {mode.value.lower(): mode for mode in EvolutionMode}
        if found.lower() not in modes:
            raise self._invalid("schemaEvolutionMode", f"one of {', '.join(EvolutionMode)}")
        mode = modes[found.lower()]
        if has_schema and mode in ADDING:
            why = "a given schema does not change; give `cloudFiles.schemaHints` instead"
            _refuse_both(f"cloudFiles.schemaEvolutionMode = {mode}", "schema", why)
        return mode

    def _rescued(self, name: str, mode: EvolutionMode, *, has_schema: bool) -> str | None:
        found = self._own.get("rescueddatacolumn", "").strip()
        if found and name in FIXED:
            self._refuse("rescuedDataColumn", found, f"{name} files have no fields that can be rescued")
        if found:
            return found
        if name in FIXED:
            if mode is EvolutionMode.RESCUE:
                self._refuse("schemaEvolutionMode", "rescue", f"{name} files have no fields that can be rescued")
            return None
        return (
            "_rescued_data" if mode is EvolutionMode.RESCUE or not (has_schema or mode is EvolutionMode.NONE) else None
        )

    def _flag(self, name: str, *, default: bool) -> bool:
        found = self._own.get(name.lower(), str(default)).strip().lower()
        if found not in {"true", "false", "auto"}:
            raise self._invalid(name, "true or false")
        return found == "true"

    def _number(self, name: str, default: int) -> int:
        text = self._own.get(name.lower(), str(default)).strip()
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise self._invalid(name, "a whole number of at least 1")
        return int(text)

    def _glob(self) -> str | None:
        found = self._own.get("pathglobfilter", self._own.get("filenamepattern"))
        try:
            glob_pattern(found or "")
        except re.error:
            raise self._invalid("pathGlobFilter", "a glob, such as *.{json,csv} or [a-z]*") from None
        return found

    def _size(self, name: str) -> int | None:
        text = self._own.get(name.lower())
        if text is None:
            return None
        match = _SIZE.fullmatch(text.strip())
        found = int(match[1]) * _UNITS[match[2].lower()] if match else 0
        if found < 1:
            raise self._invalid(name, "a size, such as 10g")
        return found

    def _time(self, name: str, zone: str) -> float | None:
        text = self._own.get(name.lower())
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(re.sub(r"\s*(?:UTC|GMT)(?:[+-]0)?$", "+00:00", text.strip()))
        except ValueError:
            raise self._invalid(name, "a time, such as 2025-04-09T18:15:00") from None
        return (found if found.tzinfo else found.replace(tzinfo=zone_of(zone))).timestamp()

    def _invalid(self, name: str, expected: str) -> UserError:
        value = self._own.get(name.lower(), "")
        return UserError("CLOUD_FILES_OPTION_INVALID", option=name, value=value, expected=expected)


def _refuse_both(first: str, second: str, why: str) -> NoReturn:
    raise UserError("CLOUD_FILES_OPTION_CONFLICT", first=first, second=second, why=why)
