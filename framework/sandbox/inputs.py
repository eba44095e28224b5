"""The inputs of a sandbox: what a test gave, which read takes it, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from framework.declare.inputs import SourceRead, StagedRead
from framework.declare.registry import Registry
from framework.declare.session.mutations import unguarded
from framework.declare.specs import IngestionSpec
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.locations import SourceLocation, caller_location
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_hint
from framework.sandbox.given_source import Batch, GivenSource, next_time, without_columns
from framework.sandbox.input_files import FORMATS, FileFormat
from framework.sandbox.input_names import (
    CLOUD_FILES,
    KAFKA,
    InputKind,
    InputName,
    Nearness,
    folder_of_path,
    is_glob,
    name_of_copy,
    name_of_table,
    names_of,
)
from framework.sandbox.kafka_inputs import kafka_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_DELTA, _PARQUET = "delta", "parquet"
_OF_OTHER_PLACES = frozenset({
    "basepath", "badrecordspath", "sourcearchivedir", "cleansource", "cloudfiles.cleansource",
    "cloudfiles.cleansource.movedestination", "cloudfiles.schemalocation", "schemalocation",
    "cleansource.movedestination",
})  # fmt: skip
"""The options of readers that name folders outside of the sandbox, or that move files there."""


class Inputs:
    """The inputs of a sandbox; it is the port `GivenInputs` of the code.

    Args:
        folder: the folder for files and tables.

    Attributes:
        tables: the folders of Delta tables that the test has written itself, by name.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spark: SparkSession | None = None
        self.sources: list[GivenSource] = []
        self._missing: dict[str, UserError] = {}
        self._seen: dict[str, InputName] = {}
        self._written = folder.parent / "written"
        self._ingestions: Registry | None = None
        self.schemas: dict[str, StructType | None] = {}
        self.tables: Mapping[QualifiedName, str] = {}

    def give(self, source: str, batch: Batch | None, *, now: float) -> None:
        """Give an input from the start.

        Args:
            source: its name as the test writes it.
            batch: its rows; None for the real input.
            now: the time, in seconds since the epoch.

        Raises:
            UserError: TEST_INPUT_GIVEN_TWICE.
        """
        if self._named(source) is not None:
            raise UserError("TEST_INPUT_GIVEN_TWICE", location=caller_location(), source=source)
        given = GivenSource(source, self._folder / f"{len(self.sources)}_{_slug(source)}", real=batch is None)
        self.sources.append(given)
        if batch is not None:
            self._add(given, batch, now)

    def arrive(self, source: str, batch: Batch, *, now: float) -> None:
        """Add a batch to an input, which is given with it if it was not before.

        Raises:
            UserError: TEST_INPUT_REAL.
        """
        given = self._named(source)
        if given is None:
            self.give(source, batch, now=now)
            return
        if given.real:
            raise UserError("TEST_INPUT_REAL", location=caller_location(), source=source)
        self._add(given, batch, now)

    def _add(self, given: GivenSource, batch: Batch, now: float) -> None:
        given.add(self._spark, replace(batch, seconds=next_time(now, given.batches)))

    def _named(self, source: str) -> GivenSource | None:
        """Return the given input of a name: the same text, or another name of the input that it was found to be."""
        same = next((each for each in self.sources if each.written == source), None)
        if same is not None:
            return same
        taken = [each for each in self.sources if each.taken is not None and each.taken.nearness(source)]
        return taken[0] if len(taken) == 1 else None

    def given_datasets(
        self, datasets: Sequence[QualifiedName], full: Callable[[str], QualifiedName]
    ) -> frozenset[QualifiedName]:
        """Return the datasets of the pipeline whose rows are given.

        Args:
            datasets: the datasets that the pipeline declares.
            full: completes a name as written in the code.

        Raises:
            UserError: TEST_INPUT_AMBIGUOUS.
        """
        found = set()
        for each in self.sources:
            name = None if each.real else _dataset_of(each.written, datasets, full)
            each.dataset = None if name is None else name_of_table(name)
            found |= set() if name is None else {name}
        return frozenset(found) | {name for name in datasets if name in self.tables}

    def is_real(self, ingestion: IngestionSpec) -> bool:
        """Whether the test lets an ingestion read its database: by its name or by that of its connection."""
        names = {ingestion.name, ingestion.connection}
        found = [each for each in self.sources if each.real and each.written.rpartition(":")[2] in names]
        for each in found:
            each.taken = InputName(kind=InputKind.NAMED, text=each.written)
        return bool(found)

    def copied_from(self, registry: Registry) -> None:
        """Find copies of tables by the names of the tables that the ingestions of a registry copy."""
        self._ingestions = registry

    @contextmanager
    def guessing(self) -> Iterator[None]:
        """Let the block resolve queries as far as their inputs are given; nothing counts as read or as missing."""
        before = {each: each.taken for each in self.sources}
        try:
            yield
        finally:
            for each, taken in before.items():
                each.taken = taken
            self._missing.clear()

    def begin(self, spark: SparkSession) -> None:
        """Forget what was missing before an update is resolved."""
        self._spark = spark
        self._missing.clear()

    def faults(self) -> tuple[SluiceError, ...]:
        """Return an error for each input that was read and not given."""
        return tuple(self._missing.values())

    def unused(self) -> tuple[SluiceError, ...]:
        """Return an error for each given input that no read has taken; real ones may be of writes."""
        seen = list(self._seen)
        return tuple(
            UserError("TEST_INPUT_UNUSED", source=each.written, hint=nearest_hint(each.written, seen))
            for each in self.sources
            if each.taken is None and not each.real
        )

    def staged(self, spark: SparkSession, read: SourceRead) -> StagedRead | None:
        """Return where the given rows of a source are; None if the real source is read.

        Raises:
            UserError: TEST_INPUT_NOT_GIVEN, TEST_INPUT_AMBIGUOUS.
        """
        self._spark = spark
        is_own = read.path is not None and self._is_own(read.path)
        if is_own or (written := self._read_back(read)) is not None:
            return None if is_own else written
        found = [each for name in names_of(read) for each in self._all_taken(name, read.location)]
        given = [each for each in found if each is not None]
        schema = kafka_columns(read.options) if read.format == KAFKA else read.schema
        if not found:  # a reader without a topic, which Spark refuses
            return None
        if len(given) < len(found):
            if schema is None or read.format in {_DELTA, CLOUD_FILES}:
                raise next(reversed(self._missing.values()))
            return self._without_rows(schema)
        if any(each.real for each in given):
            return None
        if read.format == KAFKA:
            return self._messages(given, schema)
        (source,) = given
        return self._rows(spark, source, read)

    def written(self, path: str) -> str:
        """Return where the code writes in place of a path: in the sandbox, unless the real path is let through.

        What the code has written is read back by the same path, by a folder above it, or by a pattern. Paths of the
        sandbox, which listings of files have, stay as they are.
        """
        name = InputName(kind=InputKind.PATH, text=path)
        real = self._nearest(name)
        if real is not None and real.real:
            real.taken = name
            return path
        if self._is_own(path):
            return path
        folder = self._written / folder_of_path(path)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return str(folder)

    def lets_through(self, name: str) -> bool:
        """Whether the test lets a table or path through by its name as in the code, or by the end of it."""
        kind = InputKind.PATH if "/" in name else InputKind.TABLE
        found = self._nearest(InputName(kind=kind, text=name))
        return found is not None and found.real

    def _is_own(self, path: str) -> bool:
        """Whether a path is below the folder of the sandbox."""
        return Path(path.removeprefix("file:").removeprefix("//")).is_relative_to(self._folder.parent)

    def _read_back(self, read: SourceRead) -> StagedRead | None:
        """Return where a path is that the code has written, unless the test gives it."""
        if read.path is None or self._nearest(InputName(kind=InputKind.PATH, text=read.path)) is not None:
            return None
        written = folder_of_path(read.path)
        place = self._written.joinpath(*takewhile(lambda part: not is_glob(part), written.split("/")))
        has_files = any(each.is_file() for each in (place, *place.rglob("*")))
        return StagedRead(path=str(self._written / written)) if has_files else None

    def _rows(self, spark: SparkSession, source: GivenSource, read: SourceRead) -> StagedRead:
        if read.format == _DELTA:
            return StagedRead(path=str(source.table(spark, None)))
        files = _file_format(read, source)
        if files is not None:
            folder = source.files(spark, files, read.path)
            is_unknown = read.schema is None and files.has_columns and not any(folder.rglob("*.*"))
            schema = _schema_of(source) if is_unknown else None
            return StagedRead(path=str(folder), removed=_OF_OTHER_PLACES, schema=schema)
        files = FileFormat(name=_PARQUET, options={}, schema=read.schema)
        folder, schema = source.files(spark, files, None), read.schema or _schema_of(source)
        return StagedRead(path=str(folder), format=_PARQUET, schema=schema)

    def _messages(self, given: Sequence[GivenSource], schema: StructType | None) -> StagedRead:
        folders = [str(each.messages()) for each in given]
        path = folders[0]
        if len(folders) > 1:
            path = f"{self._folder}/{{{','.join(each.folder.name for each in given)}}}/messages"
        return StagedRead(path=path, format=_PARQUET, schema=schema)

    def _without_rows(self, schema: StructType) -> StagedRead:
        """Return an empty source with known columns, so that the rest of a query is resolved, too."""
        folder = self._folder / "nothing"
        folder.mkdir(parents=True, exist_ok=True)
        return StagedRead(path=str(folder), format=_PARQUET, schema=schema)

    def table(self, spark: SparkSession, name: QualifiedName) -> str | None:
        """Return the folder of the Delta table with the given rows of a table; None if the real table is read.

        Raises:
            UserError: TEST_INPUT_NOT_GIVEN, TEST_INPUT_AMBIGUOUS.
        """
        self._spark = spark
        if name in self.tables:
            return self.tables[name]
        copied = None if self._ingestions is None else name_of_copy(name, self._ingestions)
        by_name = name_of_table(name)
        known = by_name if copied is None or self._nearest(by_name) is not None else copied
        found = self._taken(known, caller_location())
        if found is None:
            raise next(reversed(self._missing.values()))
        with unguarded():  # Spark writes some types
            return None if found.real else str(found.table(spark, self.schemas.get(str(name))))

    def _all_taken(self, name: InputName, location: SourceLocation | None) -> list[GivenSource | None]:
        """Return the given inputs that a read takes: several for a pattern of topics."""
        if name.kind is not InputKind.TOPICS:
            return [self._taken(name, location)]
        self._seen[name.text] = name
        found = [each for each in self.sources if name.nearness(each.written)]
        for each in found:
            topic = each.written.removeprefix(f"{KAFKA}:")
            each.taken = InputName(kind=InputKind.TOPIC, text=f"{KAFKA}:{topic}")
        if not found:
            self._note_missing(name, location)
        return [*found] or [None]

    def _taken(self, name: InputName, location: SourceLocation | None) -> GivenSource | None:
        """Return the given input that a read takes; None if it is not given, which is noted.

        Raises:
            UserError: TEST_INPUT_AMBIGUOUS, if two inputs of the code have the name that the test wrote.
        """
        self._seen[name.text] = name
        found = self._nearest(name)
        if found is None:
            self._note_missing(name, location)
            return None
        if found.taken is not None and found.taken != name and not self._is_same(found.taken, name):
            raise UserError(
                "TEST_INPUT_AMBIGUOUS",
                location=location,
                source=found.written,
                first=found.taken.text,
                second=name.text,
            )
        found.taken = found.taken or name
        return found

    def _nearest(self, name: InputName) -> GivenSource | None:
        near = [
            (name.nearness(each.written), len(each.written), each)
            for each in self.sources
            if each.dataset is None or each.dataset == name
        ]
        near = [each for each in near if each[0] or each[2].dataset == name]
        bound = [each for each in near if each[2].dataset is not None]
        return max(bound or near, key=lambda each: each[:2])[2] if near else None

    def _is_same(self, first: InputName, second: InputName) -> bool:
        """Whether two names are of one input, such as a folder and a pattern of its files."""
        return first.kind is second.kind and bool(
            first.nearness(second.text) is Nearness.WHOLE or second.nearness(first.text) is Nearness.WHOLE
        )

    def _note_missing(self, name: InputName, location: SourceLocation | None) -> None:
        written = [each.written for each in self.sources if each.taken is None]
        what = {InputKind.TABLE: "table", InputKind.PATH: "path"}.get(name.kind, "source")
        self._missing[f"{name.text} {location}"] = UserError(
            "TEST_INPUT_NOT_GIVEN",
            location=location,
            what=what,
            source=name.text,
            hint=nearest_hint(name.text, written),
        )


def _slug(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")[-40:]


def _dataset_of(
    written: str, datasets: Sequence[QualifiedName], full: Callable[[str], QualifiedName]
) -> QualifiedName | None:
    """Return the dataset that a test names; None if it names another input."""
    if "/" in written or ":" in written:
        return None
    with suppress(UserError):
        if full(written) in datasets:
            return full(written)
    near = [each for each in datasets if name_of_table(each).nearness(written)]
    if len(near) > 1:
        first, second = near[0], near[1]
        raise UserError("TEST_INPUT_AMBIGUOUS", source=written, first=first, second=second)
    return near[0] if near else None


def _file_format(read: SourceRead, source: GivenSource) -> FileFormat | None:
    """Return the format of the files of a read; None for a source that is not files."""
    name = read.format
    if name == CLOUD_FILES:
        options = read.options
        name = (options.get("cloudfiles.format") or options.get("format") or _suffix(source) or "json").lower()
    return FileFormat(name=name, options=read.options, schema=read.schema) if name in FORMATS else None


def _suffix(source: GivenSource) -> str | None:
    names = (each.file for each in source.batches if each.file is not None)
    return next((name.rpartition(".")[2] for name in names), None)


def _schema_of(source: GivenSource) -> StructType:
    """Return the columns of a source: as the test gives them, or inferred from its rows.

    Raises:
        UserError: TEST_INPUT_INVALID for a source without rows and without a schema.
    """
    for batch in source.batches:
        if batch.schema is not None:
            return batch.schema
        if batch.rows().values:
            return batch.rows().inferred()
    raise without_columns(source.written)
