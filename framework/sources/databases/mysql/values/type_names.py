"""Types of columns as the catalog writes them, reduced to what decides their values."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"\s*/\*.*?\*/")
_TYPE = re.compile(r"(?P<name>[a-z]\w*(?: precision)?)\s*(?:\((?P<sizes>[^)']*)\))?", re.IGNORECASE)
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("tinytext", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "mediumblob", "longblob")
_TIMES = ("time", "datetime", "timestamp")
_SPATIAL = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
)
_IN_LOG = {"uuid": "binary(16)", "inet6": "binary(16)", "inet4": "binary(4)"}


def normal_type(column_type: str) -> str:
    """Return the type of a column without what changes no value: widths of numbers, lengths of texts, comments.

    Args:
        column_type: the type as `information_schema.columns.column_type` has it.

    Examples:
        >>> [normal_type(each) for each in ("int(10) unsigned zerofill", "varchar(20)", "decimal(10,2)", "datetime")]
        ['int unsigned', 'varchar', 'decimal(10,2)', 'datetime(0)']
    """
    text = _COMMENT.sub("", column_type).strip()
    match = _TYPE.match(text)
    if match is None:
        return text
    name, sizes = match["name"].lower(), match["sizes"]
    if name in ("enum", "set"):
        return f"{name}({','.join(map(_quoted, labels_of(text)))})"
    if name in _INTEGERS:
        return f"{name} unsigned" if re.search(r"unsigned|zerofill", text, re.IGNORECASE) else name
    if name in _TIMES:
        return f"{name}({sizes or 0})"
    if name in ("decimal", "bit", "binary"):
        return f"{name}({(sizes or '').replace(' ', '')})"
    return _plain_name(name)


def labels_of(column_type: str) -> tuple[str, ...]:
    r"""Return the labels of an ENUM or a SET, in their order; () for another type.

    The catalog doubles quotes in a label, and does not escape anything else.

    Examples:
        >>> labels_of("enum('a','it''s','x,y')")
        ('a', "it's", 'x,y')
    """
    name, opened, rest = column_type.partition("(")
    if not opened or name.lower() not in ("enum", "set"):
        return ()
    return tuple(match.replace("''", "'") for match in re.findall(r"'((?:[^']|'')*)'", rest))


def log_type(type_name: str) -> str:
    """Return a normal type as the log has it, whose metadata does not distinguish some types of MariaDB from BINARY."""
    return _IN_LOG.get(type_name, type_name)


def is_enumeration(type_name: str) -> bool:
    """Whether the type is an ENUM or a SET."""
    return type_name.startswith(("enum(", "set("))


def _plain_name(name: str) -> str:
    if name in _TEXTS:
        return "text"
    if name in _BLOBS:
        return "blob"
    if name in _SPATIAL:
        return "geometry"
    return name


def _quoted(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"
