"""Random CSV files with random options: `cloudFiles` has the rows and the columns that `spark.read` has.

Each draw of options has a folder of files and a table, and all tables are in one pipeline. `spark.read` reads files
with the same first lines together, and names their columns by the header of the first one.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.seeds import fresh_seed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 500
SETS = min(max(int(os.environ.get("SLUICE_WORLDS", "4")) * 2, 8), 80)
"""Draws of options; `make soak` has more."""

Row = tuple[str, frozenset[tuple[str, str]]]
"""The name of a file, and the values of a row that are not NULL, by column."""

_NAMES = ("id", "name", "unit price", "Größe", "a.b", "x`y", "Z", "名前", " note ", "with,comma", "with|pipe",
          'q"uote', "semi;colon", "#hash", "back\\slash", "it's", "", "_c1", "a::b", "two\nlines")  # fmt: skip
_VALUES = ("", " ", "1", "-2.5", "Ada", " padded ", "a,b", "a|b", "a||b", "x::y", 'say "hi"', "back\\slash",
           "end\\", "#no comment", "ж", "it's", "NULL", "-", "\t", "2025-01-31", "true", "two\nlines")  # fmt: skip


@dataclass(kw_only=True)
class Folder:
    """Files with the same options.

    Args:
        name: of the folder and the table.
        root: the folder of all folders.
        random: draws everything.
    """

    name: str
    root: Path
    random: Random
    alike: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The names of the files by their first lines."""

    def __post_init__(self) -> None:
        """Draw the options."""
        self.encoding = self._one("utf-8", "utf-8", "utf-8", "iso-8859-1", "utf-16-le", "utf-16")
        self.multi = self.encoding.startswith("utf-16") or self._chance(0.3)
        self.sep = self._one(",", ",", ";", "\t", "|", "||", "::", "\x01", " ")
        self.quote = self._one('"', '"', '"', "'", "")
        self.escape = self._one("\\", "\\", '"', "^")
        drawn: dict[str, tuple[float, Sequence[str]]] = {
            "comment": (0.3, ("#", "-")),
            "ignoreLeadingWhiteSpace": (0.2, ("true",)),
            "ignoreTrailingWhiteSpace": (0.2, ("true",)),
            "nullValue": (0.2, ("NULL", "id", "-")),
            "emptyValue": (0.2, ("EMPTY",)),
            "charToEscapeQuoteEscaping": (0.2, ("\\", "~")),
            "unescapedQuoteHandling": (0.2, ("STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE")),
            "header": (0.15, ("false",)),
            "maxCharsPerColumn": (0.1, ("1000",)),
        }
        chosen = {name: self._one(*values) for name, (chance, values) in drawn.items() if self._chance(chance)}
        self.line_end = self._one("\n", "\n", "\r\n") if not self.multi or self._chance(0.7) else "\r"
        if self._chance(0.2):
            chosen["lineSep"] = self.line_end = self._one("\n", "~")
        self.options = {"header": "true", "sep": self.sep, "quote": self.quote, "escape": self.escape, **chosen}
        if self.encoding != "utf-8":
            self.options["encoding"] = self.encoding
        if self.multi:
            self.options["multiLine"] = "true"
        self.is_typed = self._chance(0.2)
        self.is_uniform = self.is_typed or "header" in chosen
        # The parser finds the end of lines by the first one: a line break in a name must not be another one.
        self.has_breaks = self.multi and "\n" in self.line_end
        self.names = [name for name in _NAMES if self.has_breaks or "\n" not in name]

    def write(self, count: int) -> None:
        """Write files; with types or without a header, the first lines of all of them are the same."""
        (self.root / self.name).mkdir(parents=True)
        while count > 0:
            head = self._head()
            for _ in range(count if self.is_uniform else min(count, self.random.randint(10, 40))):
                self._write(f"{count}.csv", head)
                count -= 1

    def _write(self, name: str, head: str) -> None:
        is_empty = self._chance(0.05)
        rows = [self._line(_VALUES, self.random.randint(1, 6)) for _ in range(self.random.randint(0, 4))]
        text = "" if is_empty else head + "".join(f"{self.line_end}{row}" for row in rows)
        text += self.line_end if text and self._chance(0.7) else ""
        try:
            data = text.encode(self.encoding, "replace")
        except UnicodeEncodeError:
            data = text.encode()
        if self.encoding == "utf-8" and self._chance(0.2):
            data = b"\xef\xbb\xbf" + data
        if self._chance(0.1):
            name, data = f"{name}.gz", gzip.compress(data)
        (self.root / self.name / name).write_bytes(data)
        self.alike["" if is_empty else head].append(name)

    def _head(self) -> str:
        """The first lines: blank ones, comments, and the header."""
        blank = [self._one("", "", "  ") for _ in range(self._one(0, 0, 0, 1, 2))]
        comment = self.options.get("comment")
        comments = [f"{comment} made by hand"] if comment and self._chance(0.5) else []
        names = [self._one(*self.names) for _ in range(self.random.randint(1, 6))]
        line = self._joined(names)
        is_none = not line.strip() or line.startswith(comment or "\0")
        return str(self.line_end).join([*blank, *comments, f"id{self.sep}{line}" if is_none else line])

    def _line(self, cells: Sequence[str], count: int) -> str:
        fit = [cell for cell in cells if self.has_breaks or "\n" not in cell]
        return "" if self._chance(0.1) else self._joined([self._one(*fit) for _ in range(count)])

    def _joined(self, cells: Sequence[str]) -> str:
        return str(self.sep).join(self._cell(cell) for cell in cells)

    def _cell(self, text: str) -> str:
        """A cell as a careful program writes it, or as a careless one does."""
        needs = any(part in text for part in (self.sep, self.quote, "\n", "\r", "#") if part)
        if self.quote and (self._chance(0.9) if needs else self._chance(0.2)):
            inner = text.replace(self.escape, self.escape * 2) if self.escape != self.quote else text
            return str(self.quote + inner.replace(self.quote, self.escape + self.quote) + self.quote)
        return text.replace("\n", " ")

    def _one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def _chance(self, chance: float) -> bool:
        return self.random.random() < chance

    def read(self, spark: SparkSession) -> Counter[Row]:
        """The rows that `spark.read` has; files that it can't read are deleted."""
        found: Counter[Row] = Counter()
        for names in self.alike.values():
            paths = [self.root / self.name / name for name in names]
            reader = spark.read.options(**self.options).option("inferSchema", str(self.is_typed).lower())
            try:
                frame = reader.csv([str(path) for path in paths])
                found.update(_rows(frame.selectExpr("_metadata.file_name AS __file", "*")) if frame.columns else ())
            except (PySparkException, Py4JError):
                for path in paths:
                    path.unlink()
        return found


def _rows(frame: DataFrame) -> Counter[Row]:
    """The rows with the file that they are of; a value that was rescued counts as one of its column."""
    found: Counter[Row] = Counter()
    for row in frame.collect():
        values = row.asDict()
        file = values.pop("__file")
        rest = json.loads(values.pop("_rescued_data", None) or "{}")
        rest = {name: text for name, text in rest.items() if name not in {"_file_path", "_corrupt_record"}}
        kept = {name: str(value) for name, value in values.items() if value is not None}
        found[file, frozenset({**rest, **kept}.items())] += 1
    return found


def declare(spark: SparkSession, folders: Sequence[Folder]) -> Callable[[], None]:
    """A streaming table for each folder."""

    def declared() -> None:
        for folder in folders:

            @dp.table(name=folder.name, table_properties={"delta.columnMapping.mode": "name"})
            def rows(folder: Folder = folder) -> DataFrame:
                reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "csv")
                reader = reader.option("cloudFiles.inferColumnTypes", str(folder.is_typed).lower())
                frame = reader.options(**folder.options).load(str(folder.root / folder.name))
                return frame.selectExpr("_metadata.file_name AS __file", "*")

    return declared


def test_random_files_have_the_rows_of_sparks_own_reader(interpreting: SparkSession, tmp_path: Path) -> None:
    """Rows and names of columns, for any separator, quote, escape, comment, encoding, end of lines and blank lines."""
    seed = int(os.environ.get("SLUICE_SEED", "0")) or fresh_seed()
    random = Random(seed)  # noqa: S311 - the seed makes the files repeatable
    folders = [
        Folder(name=f"f{number}", root=tmp_path / "landing", random=Random(random.random()))  # noqa: S311 - as above
        for number in range(SETS)
    ]
    for folder in folders:
        folder.write(FILES * max(SETS // 8, 1) // SETS)
    expected = {folder.name: folder.read(interpreting) for folder in folders}
    folders = [folder for folder in folders if expected[folder.name]]
    world = EngineWorld(interpreting, tmp_path)
    result = world.run(declare(interpreting, folders))
    assert result.state is UpdateState.COMPLETED, (f"SLUICE_SEED={seed}", result)
    for folder in folders:
        found = _rows(interpreting.read.format("delta").load(world.path(folder.name)))
        assert found == expected[folder.name], _difference(seed, folder, found, expected[folder.name])


def _difference(seed: int, folder: Folder, found: Counter[Row], expected: Counter[Row]) -> str:
    """The seed, the options, and the first file whose rows differ, with its content."""
    file = min(name for name, _ in [*(found - expected), *(expected - found)])
    path = folder.root / folder.name / file
    data = path.read_bytes() if path.exists() else b""
    missing, more = ([dict(row) for name, row in rows if name == file] for rows in (expected - found, found - expected))
    return f"SLUICE_SEED={seed} {path}\n{folder.options}\n{data!r}\nspark.read: {missing}\ncloudFiles: {more}"
