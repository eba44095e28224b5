"""Recorded tests as text: a function of pytest, or a test file in YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from framework.operations.recording.samples import Sample

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

YAML_SUFFIXES = (".unit_tests.yml", ".unit_tests.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTest:
    """A test of real rows.

    Args:
        dataset: the dataset, by its last name.
        inputs: the rows that are given.
        expected: the rows that an update makes of them.
        masked: the columns whose values are masked.
        notes: what a reader must know, each one sentence.
    """

    dataset: str
    inputs: tuple[Sample, ...]
    expected: tuple[dict[str, Any], ...]
    masked: tuple[str, ...]
    notes: tuple[str, ...]

    def text(self, file: Path) -> str:
        """Return the content of the file, in the language of its suffix."""
        return self._yaml() if file.name.endswith(YAML_SUFFIXES) else self._python()

    def _python(self) -> str:
        name = re.sub(r"\W+", "_", self.dataset)
        given = "\n".join(map(_given, self.inputs))
        notes = "".join(f"\n    {each}" for each in self.notes)
        return (
            f'"""Recorded by `sluice test --record {self.dataset}`."""\n\n\n'
            f"def test_{name}_of_recorded_rows(pipeline):\n"
            f'    """An update of recorded rows makes the recorded rows.\n{notes}\n    """\n{given}\n'
            f"    pipeline.update({_literal(self.dataset)})\n"
            f"    pipeline.expect(\n        {_literal(self.dataset)},\n{_rows(self.expected, 8)},\n    )\n"
        )

    def _yaml(self) -> str:
        given = [
            {_kind(each): each.name, **_schema_entry(each.schema), "rows": [*map(_cells, each.rows)]}
            for each in self.inputs
        ]
        test = {
            "name": f"{self.dataset} of recorded rows",
            "model": self.dataset,
            "given": given,
            "expect": {"rows": [*map(_cells, self.expected)]},
        }
        notes = "".join(f"# {each}\n" for each in self.notes)
        text = yaml.safe_dump({"tests": [test]}, sort_keys=False, allow_unicode=True, width=120)
        return f"# Recorded by `sluice test --record {self.dataset}`.\n{notes}{text}"


def _given(sample: Sample) -> str:
    rows, schema = _rows(sample.rows, 8), _schema_argument(sample.schema)
    return f"    pipeline.given(\n        {_literal(sample.name)},\n{rows},{schema}\n    )"


def _kind(sample: Sample) -> str:
    return "path" if sample.schema is None else "table"


def _ddl(schema: StructType) -> str:
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in schema)


def _schema_argument(schema: StructType | None) -> str:
    return "" if schema is None else f"\n        schema={_literal(_ddl(schema))},"


def _schema_entry(schema: StructType | None) -> dict[str, str]:
    return {} if schema is None else {"schema": _ddl(schema)}


def _rows(rows: Iterable[Mapping[str, Any]], indent: int) -> str:
    lines = "".join(f"{' ' * (indent + 4)}{_literal(_cells(row))},\n" for row in rows)
    return f"{' ' * indent}[\n{lines}{' ' * indent}]"


def _literal(value: Any) -> str:
    """Return a value as Python writes it; infinity and NaN have no literals."""
    if isinstance(value, float) and not (abs(value) < float("inf")):
        return f'float("{value}")'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: Any) -> Any:
    """Return a value as both languages write it; the type of its column turns its text back into the value."""
    if isinstance(value, dict):
        return {key: _cell(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_cell(each) for each in value]
    if isinstance(value, bytes):
        return f"0x{value.hex().upper()}"
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
