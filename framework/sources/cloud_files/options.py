"""Options of `cloudFiles`: names, defaults and checks. An option that has no effect here is refused, never ignored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NoReturn
from urllib.parse import unquote

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.table_address import plain_path, real_path
from framework.foundation.time_zones import zone_of
from framework.sources.cloud_files.globs import glob_pattern

FORMATS = ("json", "csv", "parquet", "avro", "orc", "text", "binaryFile", "xml")
SELF_TYPED = frozenset({"parquet", "orc", "avro"})
"""Formats whose files have the types of their columns."""
RECORDS_OF_TEXT = frozenset({"json", "csv", "xml"})
FIXED = frozenset({"text", "binaryFile"})
"""Formats that have always the same columns."""

_PREFIX = "cloudfiles."
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_OPTIONS = (
    "format", "schemaLocation", "inferColumnTypes", "schemaHints", "schemaEvolutionMode", "rescuedDataColumn",
    "includeExistingFiles", "maxFilesPerTrigger", "maxBytesPerTrigger", "allowOverwrites", "partitionColumns",
    "useNotifications", "useIncrementalListing", "cleanSource", "cleanSource.retentionDuration",
    "cleanSource.moveDestination", "validateOptions", "backfillInterval",
)  # fmt: skip
_OWN = frozenset({"path", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup",
                  "rescueddatacolumn", "maxfilespertrigger", "maxbytespertrigger"})  # fmt: skip
_OF_FILES = frozenset({"ignoremissingfiles", "ignorecorruptfiles"})
_NOT_SUPPORTED = {
    "maxfileage": "a file that was read is never forgotten",
    "latestfirst": "files are read in the order in which they were found",
    "filenameonly": "files are identified by their full paths",
    "badrecordspath": "set `rescuedDataColumn`, which keeps bad records",
    "readercasesensitive": "the names of fields are case-sensitive, as in Spark",
} | dict.fromkeys(
    ("usemanagedfileevents", "listonstart", "fetchparallelism", "region", "queueurl", "resourcetag", "pathrewrites",
     "connectionstring", "subscriptionid", "tenantid", "clientid", "clientsecret", "resourcegroup", "queuename",
     "projectid", "subscription"),
    "new files are found by listing, not by notifications",
)  # fmt: skip


class Cleaning(StrEnum):
    """What happens to files after their rows are committed and the retention has passed."""

    OFF = "OFF"
    DELETE = "DELETE"
    MOVE = "MOVE"


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
"""Months and years are the longest ones: a file never goes too early."""
_SHORTEST_DELETE = 7 * 86_400
"""Lakeflow deletes files after more than seven days only."""


class EvolutionMode(StrEnum):
    """What happens when a file has a column that the schema lacks, or has with a narrower type."""

    ADD = "addNewColumns"
    WIDEN = "addNewColumnsWithTypeWidening"
    RESCUE = "rescue"
    FAIL = "failOnNewColumns"
    NONE = "none"


_ADDING = frozenset({EvolutionMode.ADD, EvolutionMode.WIDEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFilesOptions:
    """The options of one source.

    Args:
        path: the folder, or a glob of folders or files.
        format: one of `FORMATS`.
        mode: what new columns do.
        rescued: name of the column for data that does not fit; None if there is none.
        infers_types: whether JSON, CSV and XML get types, or strings.
        hints: columns with types in DDL that replace inferred ones; "" if there are none.
        schema_location: the folder of the recorded schema; None if the pipeline's storage has it.
        include_existing: whether the files that are present at the first start are read.
        max_files: the most files of a batch.
        max_bytes: the bytes at which a batch ends; None if there is no limit.
        allow_overwrites: whether a file with another size or time is read again.
        modified_after: epoch seconds; older files and those of this time are passed over. None if there is no limit.
        modified_before: epoch seconds; newer files and those of this time are passed over. None if there is no limit.
        glob: pattern of the names of files; None if all are read.
        partition_columns: names in folders such as `date=2025-01-01`; None if those that the folders have.
        has_schema: whether the module gives the schema.
        cleaning: what happens to files that were read.
        retention_seconds: the time between the commit of a file's rows and its cleaning.
        move_destination: the folder to which files are moved; None if they are not.
        reader: the options of the format, for Spark's own reader.
    """

    path: str
    format: str
    mode: EvolutionMode
    rescued: str | None
    infers_types: bool = False
    hints: str = ""
    schema_location: str | None = None
    include_existing: bool = True
    max_files: int = 1000
    max_bytes: int | None = None
    allow_overwrites: bool = False
    modified_after: float | None = None
    modified_before: float | None = None
    glob: str | None = None
    partition_columns: tuple[str, ...] | None = None
    has_schema: bool = False
    cleaning: Cleaning = Cleaning.OFF
    retention_seconds: float = 30 * 86_400
    move_destination: str | None = None
    reader: tuple[tuple[str, str], ...] = ()

    @property
    def follows_columns(self) -> bool:
        """Whether new columns must be found before their files are read."""
        return self.mode in {*_ADDING, EvolutionMode.FAIL} and self.format not in FIXED

    @property
    def adds_columns(self) -> bool:
        """Whether new columns are recorded."""
        return self.mode in _ADDING

    @property
    def widens_types(self) -> bool:
        """Whether the types of recorded columns become wider."""
        return self.mode is EvolutionMode.WIDEN

    @property
    def keeps_unknown(self) -> bool:
        """Whether fields without a column are kept in the rescued column."""
        return self.rescued is not None and self.format not in FIXED

    def flag(self, name: str) -> bool:
        """Whether an option of the format is `true`."""
        return dict(self.reader).get(name.lower(), "false").lower() == "true"

    @property
    def inference_keys(self) -> tuple[str, ...]:
        """What an inferred schema depends on, as text; and the texts under which it may have been recorded before.

        To ignore files that are gone or broken changes no column, nor does another spelling of a local path.
        """
        without = tuple(option for option in self.reader if option[0] not in _OF_FILES)
        readers = [without, self.reader]
        # Before headers were assumed, files without them were recorded without the option.
        readers += [tuple(option for option in each if option != ("header", "false")) for each in readers]
        paths = (local_path(self.path) or self.path.rstrip("/"), self.path)
        # A flow whose types begin to widen goes on with its columns; the other way round, types would be too wide.
        modes = (self.mode, EvolutionMode.ADD) if self.widens_types else (self.mode,)
        return tuple(
            dict.fromkeys(self._key(path, mode, reader) for mode in modes for reader in readers for path in paths)
        )

    def _key(self, path: str, mode: EvolutionMode, reader: Sequence[tuple[str, str]]) -> str:
        return json.dumps([path, self.format, mode, self.infers_types, self.glob, self.partition_columns, *reader])


def reader_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a `cloudFiles` reader for those of `read_files`, which have no prefix and infer types."""
    own = {name.lower() for name in _OPTIONS}
    named = {f"{_PREFIX}{name}" if name in own else name: value for name, value in given.items()}
    return {f"{_PREFIX}infercolumntypes": "true", **named}


def parse_options(path: str | None, given: Mapping[str, str], *, has_schema: bool, zone: str) -> CloudFilesOptions:
    """Check the options of a reader.

    Args:
        path: the argument of `load`; None if it has none.
        given: the reader's options, keys in lower case.
        has_schema: whether the reader has a schema.
        zone: the session's time zone, for times without one.

    Raises:
        UserError: CLOUD_FILES_OPTION_UNKNOWN, _MISSING, _INVALID, _UNSUPPORTED or _CONFLICT, with the option.
    """
    return _Given(given).parsed(path, has_schema=has_schema, zone=zone)


class _Given:
    """The options as given."""

    def __init__(self, given: Mapping[str, str]) -> None:
        known = {name.lower(): name for name in _OPTIONS}
        self._own = {key.removeprefix(_PREFIX): value for key, value in given.items() if key.startswith(_PREFIX)}
        for key, value in given.items():
            if key in _OWN and self._own.setdefault(key, value) != value:
                name = known.get(key, key)
                _refuse_both(f"cloudFiles.{name} = {self._own[key]}", f"{name} = {value}", "both name one option")
        for name, why in _NOT_SUPPORTED.items():
            if name in self._own:
                self._refuse(name, self._own[name], why)
        for name in self._own:
            if name not in known and name not in _OWN:
                raise UserError("CLOUD_FILES_OPTION_UNKNOWN", option=f"cloudFiles.{name}", hint=_hint(name))
        self._reader = {k: v for k, v in given.items() if not k.startswith(_PREFIX) and k not in _OWN}
        for name, why in _NOT_SUPPORTED.items():
            if name in self._reader:
                raise UserError("CLOUD_FILES_OPTION_UNSUPPORTED", option=name, value=self._reader[name], why=why)

    def parsed(self, path: str | None, *, has_schema: bool, zone: str) -> CloudFilesOptions:
        self._refuse_unsupported()
        folder = path or self._own.get("path")
        if not folder:
            raise UserError("CLOUD_FILES_OPTION_MISSING", option="path")
        mode, cleaning = self._mode(has_schema=has_schema), self._cleaning()
        name = self._format()
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
            reader=tuple(sorted(({"header": "true"} | self._reader if infers_csv else self._reader).items())),
        )

    def _refuse_unsupported(self) -> None:
        if self._flag("useNotifications", default=False):
            self._refuse("useNotifications", "true", "new files are found by listing")
        if "backfillinterval" in self._own:
            self._refuse("backfillInterval", self._own["backfillinterval"], "every listing is complete")

    def _refuse_lost_records(self, name: str, rescued: str | None) -> None:
        """Refuse what would keep records of text from the rescued column."""
        if rescued is None or name not in RECORDS_OF_TEXT:
            return
        if self._reader.get("mode", "").upper() == "DROPMALFORMED":
            why = "records whose values do not fit would be dropped in place of being rescued"
            _refuse_both("mode = DROPMALFORMED", f"rescuedDataColumn = {rescued}", why)
        if "columnnameofcorruptrecord" in self._reader:
            why = "records that can't be parsed are in the rescued column"
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
        if f"{_real(found)}/".startswith(f"{_real(folder_before_glob(folder))}/"):
            why = "files that are moved into the folder would be read again"
            _refuse_both("cloudFiles.cleanSource.moveDestination", "path", why)
        return found

    def _refuse(self, name: str, value: str, why: str) -> None:
        raise UserError("CLOUD_FILES_OPTION_UNSUPPORTED", option=f"cloudFiles.{name}", value=value, why=why)

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
        if has_schema and mode in _ADDING:
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
        found = self._own.get("pathglobfilter")
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


def _hint(name: str) -> str:
    """What an unknown option with the prefix may mean: another one, or an option of the format."""
    if name == "inferschema":
        return " Did you mean `cloudFiles.inferColumnTypes`?"
    return nearest_hint(name, _OPTIONS) or f" An option of the format has no prefix: `{name}`."


def _refuse_both(first: str, second: str, why: str) -> NoReturn:
    raise UserError("CLOUD_FILES_OPTION_CONFLICT", first=first, second=second, why=why)


def folder_before_glob(path: str) -> str:
    """The folder that has all files of a path: the path itself, or the part before its first glob.

    Examples:
        >>> folder_before_glob("/in/year=*/[ab]")
        '/in'
    """
    parts = path.rstrip("/").split("/")
    globs = [index for index, part in enumerate(parts) if set("*?[{") & set(part)]
    return "/".join(parts[: globs[0]] if globs else parts)


def local_path(path: str) -> str | None:
    """The path of a local folder, without its scheme; None for another file system."""
    plain = plain_path(unquote(path) if path.startswith("file:") else path)
    return plain if plain.startswith("/") else None


def _real(path: str) -> str:
    return real_path(local_path(path) or path)
