"""Records a test: samples and masks the inputs of a dataset, and runs a real update of them in a sandbox."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_hint, qualified_hint
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.operations.recording.files import RecordedTest
from framework.operations.recording.masks import Masks, is_personal
from framework.operations.recording.samples import Sample, Sampler, file_sample, rows_of
from framework.pipeline import Pipeline
from framework.run.tables.table_store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE_KINDS = ("files", "cloud_files")
MOST_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRequest:
    """What to record.

    Args:
        dataset: the dataset, as a user names it.
        version: the version of its table; its inputs are read as of the time of that version. None for the present.
        limit: the most rows of an input.
        masked: columns to mask, beside those whose names are obviously personal.
        unmasked: columns to leave as they are, although their names are.
    """

    dataset: str
    version: int | None = None
    limit: int = MOST_ROWS
    masked: tuple[str, ...] = ()
    unmasked: tuple[str, ...] = ()


def record_test(pipeline: Pipeline, request: RecordRequest, *, salt: bytes | None = None) -> RecordedTest:
    """Return a test of real rows of a dataset, which has passed: its expected rows are those of an update.

    Args:
        pipeline: the pipeline, whose tables are read and not changed.
        request: the dataset, the limit and the masks.
        salt: the salt of the masks; None for a random one.

    Raises:
        UserError: DATASET_NOT_FOUND, TEST_RECORD_...; nothing was written.
        SluiceError: the error of the update in the sandbox.
    """
    tables = _Tables(pipeline, request)
    dataset = tables.dataset
    samples = [*tables.samples()]
    columns = {name for each in samples for row in each.rows for name in row}
    masks = Masks(_masked(columns, request), salt or secrets.token_bytes(16))
    masked = [replace(each, rows=tuple(map(masks.row, each.rows))) for each in samples]
    short = dataset.name.table
    with pipeline.sandbox() as sandbox:
        for each in masked:
            sandbox.given(each.name, list(each.rows), schema=each.schema)
        sandbox.update(short)
        expected = rows_of(sandbox.table(short).drop(HIDDEN_COLUMN))
    stored = {repr(sorted(masks.row(row).items())) for row in rows_of(tables.output())}
    equal = sum(repr(sorted(row.items())) in stored for row in expected)
    shown = tuple(sorted(name for name in columns if name.lower() in masks.columns))
    return RecordedTest(
        dataset=short,
        inputs=tuple(masked),
        expected=tuple(sorted(expected, key=repr)),
        masked=shown,
        notes=tuple(_notes(masked, shown, equal, len(expected), request)),
    )


class _Tables:
    """The tables that a recording reads."""

    def __init__(self, pipeline: Pipeline, request: RecordRequest) -> None:
        self._pipeline, self._request = pipeline, request
        self._graph: DataflowGraph = pipeline.graph
        self._store = TableStore(pipeline=pipeline.name, spark=pipeline.spark, storage=pipeline.storage)
        self.dataset = self._dataset(request.dataset)

    def _dataset(self, text: str) -> GraphDataset:
        spec = self._pipeline.spec
        name = QualifiedName.parse(text, catalog=spec.catalog, schema=spec.schema)
        found = self._graph.dataset(name)
        if found is None:
            hint = qualified_hint(text, [str(each.name) for each in self._graph.datasets])
            raise UserError("DATASET_NOT_FOUND", dataset=name, hint=hint)
        if not found.is_table:
            raise UserError("TEST_RECORD_NOT_A_TABLE", location=found.spec.location, dataset=name)
        return found

    def samples(self) -> Iterator[Sample]:
        """Yield a sample of each input.

        Raises:
            UserError: TEST_RECORD_INPUT_UNREADABLE, TEST_RECORD_FILES_UNREADABLE.
        """
        keys = {key.lower() for each in self._graph.datasets if each.cdc is not None for key in each.cdc.keys}
        sampler = Sampler(keys, self._request.limit)
        frames = self._frames()
        if frames:
            sampler.add(str(self.dataset.name), self.output())
            yield from sampler.tables(frames)
        for folder in self._folders():
            yield file_sample(self._as_written(folder), folder, self._request.limit)

    def output(self) -> DataFrame:
        """Return the rows of the dataset's table."""
        self._store.check_readable(self.dataset.spec)
        options = {} if self._request.version is None else {"versionAsOf": self._request.version}
        return self._read(self.dataset, options)

    def _frames(self) -> dict[str, DataFrame]:
        """Return the tables that the dataset's flows read, by the names that a test gives them."""
        then = self._time()
        found: dict[str, DataFrame] = {}
        for read in (read for flow in self._graph.flows_into(self.dataset.name) for read in flow.reads):
            dataset = None if read.dataset is None else self._graph.dataset(read.dataset)
            if dataset is not None and dataset.is_table and dataset.name != self.dataset.name:
                found[dataset.name.table] = self._read(dataset, {} if then is None else {"timestampAsOf": then})
            elif read.dataset is None:
                path = f"delta.`{read.path}`" if read.path else read.text
                found[read.text] = self._pipeline.sql(f"SELECT * FROM {path}")
        return found

    def _folders(self) -> Iterator[str]:
        for flow in self._graph.flows_into(self.dataset.name):
            yield from flow.batch_paths
            for source in flow.sources:
                if source.kind not in _FILE_KINDS or source.location is None:
                    where = flow.spec.location
                    raise UserError(
                        "TEST_RECORD_INPUT_UNREADABLE", location=where, dataset=self.dataset.name, source=source
                    )
                yield source.location

    def _as_written(self, folder: str) -> str:
        """Return a folder below that of the spec relative to it, as tests on other machines find it."""
        path, root = Path(folder.removeprefix("file:")), Path(self._pipeline.spec.root or ".").resolve()
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else folder

    def _read(self, dataset: GraphDataset, options: Mapping[str, Any]) -> DataFrame:
        path = self._store.path(dataset.spec)
        return self._pipeline.spark.read.format("delta").options(**options).load(path).drop(HIDDEN_COLUMN)

    def _time(self) -> str | None:
        """Return the time of the recorded version; None for the present."""
        version = self._request.version
        if version is None:
            return None
        path = self._store.path(self.dataset.spec)
        history = self._pipeline.spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where(f"version = {version}")
        row = history.selectExpr("CAST(timestamp AS STRING) AS time").first()
        if row is None:
            raise UserError("TEST_RECORD_VERSION_NOT_FOUND", dataset=self.dataset.name, version=version)
        return str(row.time)


def _masked(columns: set[str], request: RecordRequest) -> set[str]:
    """Return the columns to mask, in lower case.

    Raises:
        UserError: TEST_RECORD_COLUMN_NOT_FOUND.
    """
    known = {name.lower() for name in columns}
    for name in (*request.masked, *request.unmasked):
        if name.lower() not in known:
            hint = nearest_hint(name.lower(), known)
            raise UserError("TEST_RECORD_COLUMN_NOT_FOUND", column=name, dataset=request.dataset, hint=hint)
    personal = {name.lower() for name in columns if is_personal(name)}
    return (personal - {name.lower() for name in request.unmasked}) | {name.lower() for name in request.masked}


def _notes(
    inputs: list[Sample], masked: tuple[str, ...], equal: int, count: int, request: RecordRequest
) -> Iterator[str]:
    of = "the table" if request.version is None else f"version {request.version} of the table"
    yield f"{equal} of the {count} expected rows are rows of {of}; an update of the given rows makes all of them."
    for each in inputs:
        yield f"{len(each.rows)} rows of {each.name}: {each.chosen}."
    if masked:
        yield f"Masked: {', '.join(masked)}."
