"""The options of a file source as a value, with defaults; `given_options` validates a reader's options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from framework.foundation.table_address import plain_path, real_path

FORMATS = ("json", "csv", "parquet", "avro", "orc", "text", "binaryFile", "xml")
SELF_TYPED = frozenset({"parquet", "orc", "avro"})
"""Formats whose files contain the types of their columns."""
RECORDS_OF_TEXT = frozenset({"json", "csv", "xml"})
ASKS_IN_TASKS = frozenset({"xml", "avro"})
"""Formats whose readers look up case sensitivity in their tasks."""
FIXED = frozenset({"text", "binaryFile"})
"""Formats that always have the same columns."""

_OF_FILES = frozenset({"ignoremissingfiles", "ignorecorruptfiles"})


class Cleaning(StrEnum):
    """How files are cleaned after their rows are committed and the retention has passed."""

    OFF = "OFF"
    DELETE = "DELETE"
    MOVE = "MOVE"


class EvolutionMode(StrEnum):
    """How a flow handles a file with a column that the schema lacks or has with a narrower type."""

    ADD = "addNewColumns"
    WIDEN = "addNewColumnsWithTypeWidening"
    RESCUE = "rescue"
    FAIL = "failOnNewColumns"
    NONE = "none"


ADDING = frozenset({EvolutionMode.ADD, EvolutionMode.WIDEN})
"""The modes that record new columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFilesOptions:
    """The options of one source.

    Args:
        path: the folder, or a glob of folders or files.
        format: one of `FORMATS`.
        mode: how new columns are handled.
        rescued: name of the column for data that does not fit; None if there is none.
        infers_types: whether columns of JSON, CSV and XML get inferred types; else they are strings.
        hints: columns with types in DDL that replace inferred ones; "" if there are none.
        schema_location: the folder of the recorded schema; None if the pipeline's storage has it.
        include_existing: whether the files that are present at the first start are read.
        max_files: the maximum number of files in a batch.
        max_bytes: the bytes at which a batch ends; None if there is no limit.
        allow_overwrites: whether a file with another size or time is read again.
        modified_after: epoch seconds; only files modified later are read. None if there is no limit.
        modified_before: epoch seconds; only files modified earlier are read. None if there is no limit.
        glob: pattern of the names of files; None if all are read.
        partition_columns: names in folders such as `date=2025-01-01`; None for all names in the folders.
        has_schema: whether the module gives the schema.
        cleaning: how files are cleaned after they were read.
        retention_seconds: the time between the commit of a file's rows and its cleaning.
        move_destination: the folder to which files are moved; None if they are not moved.
        is_case_sensitive: whether a field whose name differs from a column only in case is rescued; else it is read
            into the column.
        skip_rows: the number of lines to skip at the beginning of each CSV file.
        reader: the options of the format, for Spark's own reader.
        without_effect: options that change no row, as the user spells them, and why.
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
    is_case_sensitive: bool = True
    skip_rows: int = 0
    reader: tuple[tuple[str, str], ...] = ()
    without_effect: tuple[tuple[str, str], ...] = ()

    @property
    def follows_columns(self) -> bool:
        """Whether new columns must be found before their files are read."""
        return self.mode in {*ADDING, EvolutionMode.FAIL} and self.format not in FIXED

    @property
    def adds_columns(self) -> bool:
        """Whether new columns are recorded."""
        return self.mode in ADDING

    @property
    def widens_types(self) -> bool:
        """Whether the types of recorded columns become wider."""
        return self.mode is EvolutionMode.WIDEN

    @property
    def keeps_unknown(self) -> bool:
        """Whether fields without a column are kept in the rescued column."""
        return self.rescued is not None and self.format not in FIXED

    @property
    def needs_names(self) -> bool:
        """Return whether the names in files must be known because case variants are read into columns."""
        return not self.is_case_sensitive and self.format not in FIXED

    @property
    def loses_variants(self) -> bool:
        """Return whether values of a field would be lost if its name differs from a column only in case."""
        return self.is_case_sensitive and self.rescued is None and self.format in {"json", "xml"}

    def flag(self, name: str) -> bool:
        """Return whether an option of the format is `true`."""
        return dict(self.reader).get(name.lower(), "false").lower() == "true"

    @property
    def inference_keys(self) -> tuple[str, ...]:
        """Return the key of an inferred schema, then other keys under which it may have been recorded before.

        Options to ignore missing or corrupt files don't change columns, nor does another spelling of a local path.
        """
        reader = tuple(option for option in self.reader if option[0] not in _OF_FILES)
        # Turning type widening on keeps the recorded columns; turning it off does not, because types may be too wide.
        modes = (self.mode, EvolutionMode.ADD) if self.widens_types else (self.mode,)
        return tuple(self._key(mode, reader) for mode in modes)

    def _key(self, mode: EvolutionMode, reader: Sequence[tuple[str, str]]) -> str:
        path = local_path(self.path) or self.path.rstrip("/")
        skipped = [("skipRows", str(self.skip_rows))] if self.skip_rows else []
        own = [path, self.format, mode, self.infers_types, self.glob, self.partition_columns]
        return json.dumps([*own, *reader, *skipped])


def folder_before_glob(path: str) -> str:
    """Return the folder that contains all files of a path: the path, or the part before its first glob.

    Examples:
        >>> folder_before_glob("/in/year=*/[ab]")
        '/in'
    """
    parts = path.rstrip("/").split("/")
    globs = [index for index, part in enumerate(parts) if set("*?[{") & set(part)]
    return "/".join(parts[: globs[0]] if globs else parts)


def local_path(path: str) -> str | None:
    """Return the path of a local folder, without its scheme; None for another file system."""
    plain = plain_path(unquote(path) if path.startswith("file:") else path)
    return plain if plain.startswith("/") else None


def real_folder(path: str) -> str:
    """Return the path of a folder without links, if it is a local one."""
    return real_path(local_path(path) or path)
