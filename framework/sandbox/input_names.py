"""The names of a pipeline's inputs, and how the name that a test writes is found among them.

A test writes an input as the code does, or the end of its name: `data/orders` for `dbfs:/mnt/data/orders`, `orders` for
the table `main.sales.orders`, `public.orders` for `postgres:bank/public.orders`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from framework.declare.inputs import SourceRead
from framework.declare.registry import Registry
from framework.foundation.names import QualifiedName
from framework.ingest.tables.objects import target_of
from framework.sources.databases.format_names import CHANGES_FORMATS, SNAPSHOT_FORMATS
from framework.sources.databases.tables import TableName

KAFKA = "kafka"
CLOUD_FILES = "cloudfiles"
_GLOB = frozenset("*?[{")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<rest>/.*)", re.DOTALL)
_LOCAL = frozenset({"", "dbfs", "file"})
_NAMED_BY = ("dbtable", "table", "tables", "query", "topic", "collection", "name", "url")


class InputKind(StrEnum):
    """What an input is."""

    PATH = "path"
    TABLE = "table"
    TOPIC = "topic"
    TOPICS = "topics"
    DATABASE = "database"
    NAMED = "named"


class Nearness(IntEnum):
    """How well a name that a test wrote fits an input."""

    NONE = 0
    END = 1
    WHOLE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InputName:
    """An input as the code reads it.

    Args:
        kind: what it is.
        text: its name for messages, which a test can write: `data/orders`, `kafka:orders`, `postgres:bank/public.t`.
    """

    kind: InputKind
    text: str

    def nearness(self, written: str) -> Nearness:
        """Return how well a name that a test wrote fits.

        Examples:
            >>> orders = InputName(kind=InputKind.PATH, text="dbfs:/mnt/data/orders/*.json")
            >>> [orders.nearness(text).name for text in ("/mnt/data/orders", "data/orders", "orders/", "ders", "data")]
            ['WHOLE', 'END', 'END', 'NONE', 'NONE']
        """
        return _NEARNESS[self.kind](written.strip(), self.text)


def names_of(read: SourceRead) -> tuple[InputName, ...]:
    """Return the inputs of a read: one, or a topic each."""
    if read.format == KAFKA:
        return _topics(read.options)
    if read.format in (*SNAPSHOT_FORMATS, *CHANGES_FORMATS):
        scheme = read.format.rpartition("_")[0]
        table = read.options.get("table") or read.options.get("tables") or "*"
        connection = read.options.get("connection", "*")
        return (InputName(kind=InputKind.DATABASE, text=f"{scheme}:{connection}/{table}"),)
    if read.path is not None:
        return (InputName(kind=InputKind.PATH, text=read.path),)
    value = next((read.options[key] for key in _NAMED_BY if key in read.options), None)
    text = read.format if value is None else f"{read.format}:{value}"
    return (InputName(kind=InputKind.NAMED, text=text),)


def folder_of_path(path: str) -> str:
    """Return a relative folder for what code writes to a path; folders and patterns in it have the same place in it.

    Examples:
        >>> [folder_of_path(path) for path in ("dbfs:/mnt/out/a", "/mnt/*.json", "s3a://bucket/out", "../out")]
        ['files/mnt/out/a', 'files/mnt/*.json', 's3/bucket/out', 'files/_parent/out']
    """
    scheme, parts = _path_parts(path)
    return "/".join([scheme or "files", *("_parent" if part == ".." else part for part in parts)])


def name_of_table(name: QualifiedName) -> InputName:
    """Return the input of a table by its full name."""
    return InputName(kind=InputKind.TABLE, text=str(name))


def name_of_copy(name: QualifiedName, registry: Registry) -> InputName | None:
    """Return the table of a database that a table is a copy of, by the declared ingestions; None if it is no copy."""
    for spec in registry.ingestions:
        for each in spec.objects:
            known = TableName(schema=each.source_schema, table=each.source_table or name.table)
            if target_of(each, known, catalog=registry.catalog, schema=registry.schema) == name:
                table = f"{known.schema}.{known.table}"
                return InputName(kind=InputKind.DATABASE, text=f"database:{spec.connection}/{table}")
    return None


def is_glob(text: str) -> bool:
    """Whether a path is a pattern."""
    return bool(_GLOB & set(text))


def _topics(options: Mapping[str, str]) -> tuple[InputName, ...]:
    if "subscribepattern" in options:
        return (InputName(kind=InputKind.TOPICS, text=f"{KAFKA}:{options['subscribepattern']}"),)
    listed = options.get("subscribe") or ",".join(re.findall(r'"([^"]+)"\s*:', options.get("assign", "")))
    topics = dict.fromkeys(topic.strip() for topic in listed.split(",") if topic.strip())
    return tuple(InputName(kind=InputKind.TOPIC, text=f"{KAFKA}:{topic}") for topic in topics)


def _path_nearness(written: str, path: str) -> Nearness:
    scheme, parts = _path_parts(written)
    found_scheme, found = _path_parts(path)
    if not parts or (scheme and scheme != found_scheme):
        return Nearness.NONE
    folder = next((number for number, part in enumerate(found) if is_glob(part)), len(found))
    for candidate in {folder, len(found)}:
        if found[:candidate] == parts:
            return Nearness.WHOLE
    for candidate in {folder, len(found)}:
        if found[max(candidate - len(parts), 0) : candidate] == parts:
            return Nearness.END
    return Nearness.NONE


def _path_parts(path: str) -> tuple[str, list[str]]:
    """Return the scheme of a path, empty for one of the machine or the workspace, and its parts."""
    match = _SCHEME.fullmatch(path)
    scheme = "" if match is None else match["scheme"].lower().replace("s3a", "s3").replace("s3n", "s3")
    plain = posixpath.normpath(path if match is None else match["rest"])
    plain = plain.removeprefix("/dbfs") if plain.startswith("/dbfs/") else plain
    return "" if scheme in _LOCAL else scheme, [part for part in plain.split("/") if part not in {"", "."}]


def _table_nearness(written: str, name: str) -> Nearness:
    if "/" in written or ":" in written:
        return Nearness.NONE
    parts, found = _dotted(written), _dotted(name)
    if parts == found:
        return Nearness.WHOLE
    return Nearness.END if found[-len(parts) :] == parts else Nearness.NONE


def _dotted(name: str) -> list[str]:
    return [part.strip("`").lower() for part in name.split(".")]


def _topic_nearness(written: str, topic: str) -> Nearness:
    is_topic = written in {topic, topic.partition(":")[2]}
    return Nearness.WHOLE if is_topic else Nearness.NONE


def _topics_nearness(written: str, topics: str) -> Nearness:
    pattern, topic = topics.partition(":")[2], written.removeprefix(f"{KAFKA}:")
    is_one = written == topics or re.fullmatch(pattern, topic) is not None
    return Nearness.WHOLE if is_one else Nearness.NONE


def _database_nearness(written: str, table: str) -> Nearness:
    rest = written.partition(":")[2] if ":" in written else written
    connection, _, name = table.partition(":")[2].partition("/")
    if rest == f"{connection}/{name}":
        return Nearness.WHOLE
    tables = [each.strip() for each in name.split(",")]
    is_end = "/" not in rest and any(_table_nearness(rest, each) for each in tables)
    return Nearness.END if is_end else Nearness.NONE


def _named_nearness(written: str, named: str) -> Nearness:
    value = named.partition(":")[2]
    if written in {named, value}:
        return Nearness.WHOLE
    return Nearness.END if value and _table_nearness(written, value) else Nearness.NONE


_NEARNESS = {
    InputKind.PATH: _path_nearness,
    InputKind.TABLE: _table_nearness,
    InputKind.TOPIC: _topic_nearness,
    InputKind.TOPICS: _topics_nearness,
    InputKind.DATABASE: _database_nearness,
    InputKind.NAMED: _named_nearness,
}
