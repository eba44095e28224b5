"""Compares two tables, or a source database and its copy."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from framework.foundation.errors import UserError
from framework.foundation.processes import start_of_process
from framework.graph.queries.calls import first_words
from framework.recovery.alignment import align
from framework.recovery.comparison import ComparedTable, Comparison
from framework.recovery.copy_position import CopyPositions
from framework.recovery.differences import find_differences
from framework.recovery.references import DatabaseReference, Reference, TableReference, parse_reference
from framework.recovery.request import ComparisonRequest
from framework.recovery.sides import Side, Sides, living_rows
from framework.sources.databases.dialects import dialect_of
from framework.sources.databases.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREFIX = "sluice-comparison-"


def reconcile(request: ComparisonRequest, sides: Sides, *, connections: Path, shared_folder: Path | None) -> Comparison:
    """Compare two tables exactly.

    Args:
        request: the tables and columns to compare.
        sides: opens the tables of the pipeline.
        connections: the folder of `connections.yml`.
        shared_folder: a folder shared by all machines of the cluster; None to use a temporary folder of this machine.

    Raises:
        UserError: a table or a column does not exist, or the condition is invalid.
        SourceError: the database can't be read.
    """
    references = (parse_reference(request.first), parse_reference(request.second))
    databases = [reference for reference in references if isinstance(reference, DatabaseReference)]
    if not databases:
        opened = [
            sides.open(text, reference)
            for text, reference in zip((request.first, request.second), references, strict=True)
            if not isinstance(reference, DatabaseReference)
        ]
        return _compare(request, opened)
    if len(databases) > 1:
        raise UserError("RECONCILE_TWO_DATABASES", first=request.first, second=request.second)
    return _compare_with_source(request, sides, references, connections=connections, shared_folder=shared_folder)


def _compare_with_source(
    request: ComparisonRequest,
    sides: Sides,
    references: Sequence[Reference],
    *,
    connections: Path,
    shared_folder: Path | None,
) -> Comparison:
    """Compare a table of a source database with its copy.

    The order of reads makes a certain result possible: first the copy's position, then its version, then the source. So
    the source has every change that the copy has. The copy can lack only changes between its position and the
    source's position, and the log shows those.
    """
    texts = (request.first, request.second)
    place = 0 if isinstance(references[0], DatabaseReference) else 1
    reference, copied = references[place], references[1 - place]
    assert isinstance(reference, DatabaseReference)
    assert not isinstance(copied, DatabaseReference)
    dataset = sides.dataset(copied) if isinstance(copied, TableReference) else None
    position = CopyPositions(graph=sides.graph, store=sides.store).read(dataset)
    copy = living_rows(sides.open(texts[1 - place], copied))
    values = {"connection": reference.connection, "table": reference.table, "connectionsFolder": str(connections)}
    options = Options("reconcile", values)
    connection = options.connection()
    # The drivers of the database are imported only if there is one.
    dialect = dialect_of(connection)
    if not dialect.abilities.compares_tables:
        raise UserError("RECONCILE_DATABASE_NOT_COMPARED", table=texts[place], database=dialect.name)
    source = dialect.whole_table(connection, options.table("table"))
    with scratch_folder(shared_folder) as folder:
        read = source.fetch(folder)
        source_side = Side(
            name=texts[place],
            frame=source.rows(sides.store.spark, read),
            keys=source.keys,
            position=str(read.position),
        )
        opened = [copy, source_side] if place else [source_side, copy]
        found = _compare(request, opened)
        if not found.totals.keys:
            return found
        doubt = position.problem if position.stored is None else source.doubt(read, position.stored)
        return replace(found, uncertain=doubt)


def _compare(request: ComparisonRequest, opened: Sequence[Side]) -> Comparison:
    first, second = (_filtered(side, request.where) for side in opened)
    keys = request.keys or opened[0].keys or opened[1].keys
    names = (opened[0].name, opened[1].name)
    pairs = align(first.schema, second.schema, names=names, keys=keys, columns=request.columns)
    found = find_differences(first, second, pairs, limit=request.limit)
    table = partial(_compared_table, opened)
    return Comparison(
        first=table(0, found.first_rows),
        second=table(1, found.second_rows),
        keys=tuple(pair.name for pair in pairs.keys),
        columns=tuple(pair.name for pair in pairs.values),
        findings=pairs.findings,
        totals=found.totals,
        differences=found.keys,
    )


def _compared_table(opened: Sequence[Side], place: int, rows: int) -> ComparedTable:
    side = opened[place]
    return ComparedTable(name=side.name, rows=rows, version=side.version, position=side.position)


def _filtered(side: Side, condition: str | None) -> DataFrame:
    if condition is None:
        return side.frame
    try:
        return side.frame.where(condition)
    except AnalysisException as error:
        raise UserError(
            "RECONCILE_CONDITION_INVALID", table=side.name, text=condition, cause=first_words(error)
        ) from error


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a new folder, deleted after the block; first delete the folders of killed processes of this machine."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    place.mkdir(parents=True, exist_ok=True)
    host = f"{_PREFIX}{socket.gethostname()}-"
    for left in place.glob(f"{glob.escape(host)}*"):
        pid, _, started = left.name.removeprefix(host).partition("-")
        if pid.isdigit() and start_of_process(int(pid)) != started.partition("-")[0]:
            shutil.rmtree(left, ignore_errors=True)
    own = os.getpid()
    folder = Path(tempfile.mkdtemp(prefix=f"{host}{own}-{start_of_process(own)}-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
