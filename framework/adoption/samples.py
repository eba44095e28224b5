"""Sample files for what a pipeline reads: a row with the columns that its code names, where the local file has it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from framework.adoption.project import SUFFIXES
from framework.adoption.read_columns import Read, reads_of
from framework.adoption.texts import PLACEHOLDER
from framework.declare.modules.imported_files import with_imported
from framework.declare.modules.loader import library_files
from framework.declare.modules.notebook_source import read_source
from framework.declare.pipeline_spec import PipelineSpec, load_spec
from framework.foundation.errors import UserError

_VALUES = (
    (re.compile(r"(?:^|_)(?:timestamp|ts|time|at|datetime)$", re.IGNORECASE), "2026-01-01T00:00:00"),
    (re.compile(r"date|(?:^|_)(?:day|dt|on)$", re.IGNORECASE), "2026-01-01"),
    (re.compile(r"amount|price|cost|total|qty|quantity|count|number|age|id$|year|month", re.IGNORECASE), 1),
)
_KINDS = frozenset({"csv", "json"})


def write_samples(spec: Path) -> tuple[Path, ...]:
    """Write a file with one row for each table and each path of files in CSV or JSON that has none yet.

    Only what `paths` and `tables` of the spec and its local file map is written, and no file is replaced.

    Args:
        spec: the spec of the pipeline.

    Raises:
        UserError: the spec is invalid.
    """
    pipeline = load_spec(spec)
    columns: dict[tuple[Path, str], dict[str, None]] = {}
    for read in _reads(pipeline, spec.resolve().parent):
        place = _place(read, pipeline)
        if place is not None and read.columns:
            columns.setdefault(place, {}).update(dict.fromkeys(read.columns))
    written = []
    for (path, kind), names in columns.items():
        file = path if path.suffix == f".{kind}" else path / f"sample.{kind}"
        if file.exists() or (path.is_dir() and any(path.iterdir())):
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_text({name: _value(name) for name in names}, kind), "utf-8")
        written.append(file)
    return tuple(written)


def _reads(pipeline: PipelineSpec, root: Path) -> Iterator[Read]:
    """Yield the reads of a pipeline's files; `sluice adopt` names those that can't be read."""
    folders = [root] if pipeline.root_path is None else [root, root / pipeline.root_path]
    configuration = dict(pipeline.configuration)

    def value_of(key: str) -> str:
        return configuration.get(key, PLACEHOLDER)

    for path, _ in with_imported(library_files(pipeline, root, SUFFIXES), folders):
        try:
            code, _ = read_source(path, path.read_bytes(), value_of)
            yield from reads_of(code.decode("utf-8-sig", errors="replace"), configuration)
        except (UserError, SyntaxError, ValueError):
            continue


def _place(read: Read, pipeline: PipelineSpec) -> tuple[Path, str] | None:
    """The file or folder of this machine that a read is mapped to, and its format; None if none can be written."""
    if read.kind is not None:
        target = pipeline.workspace.paths.local_target(read.name)
        return None if target is None or read.kind not in _KINDS or "*" in target else (Path(target), read.kind)
    entry = next((each for each in pipeline.workspace.tables if each.name == read.name), None)
    options: Mapping[str, str] = {} if entry is None else dict(entry.options)
    kind, path = options.get("format", ""), options.get("path", "")
    return (Path(path), kind) if kind in _KINDS and path and "://" not in path else None


def _value(column: str) -> str | int:
    return next((value for pattern, value in _VALUES if pattern.search(column)), "a")


def _text(row: Mapping[str, str | int], kind: str) -> str:
    if kind == "json":
        return json.dumps(row) + "\n"
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([list(row), list(row.values())])
    return text.getvalue()
