"""Given messages of Kafka topics, with the columns of Kafka's source; no broker is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework.foundation.errors import UserError
from framework.sandbox.file_texts import json_row, json_text
from framework.sandbox.rows import Rows

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS = [
    StructField("key", BinaryType()), StructField("value", BinaryType()), StructField("topic", StringType()),
    StructField("partition", IntegerType()), StructField("offset", LongType()),
    StructField("timestamp", TimestampType()), StructField("timestampType", IntegerType()),
]  # fmt: skip
COLUMNS = StructType(_COLUMNS)
COLUMNS_WITH_HEADERS = StructType([*_COLUMNS, StructField("headers", ArrayType(_HEADER))])
_NAMES = frozenset(COLUMNS_WITH_HEADERS.fieldNames())


def kafka_columns(options: Mapping[str, str]) -> StructType:
    """Return the columns of a reader of topics, by its options with names in lower case."""
    return COLUMNS_WITH_HEADERS if options.get("includeheaders", "false").lower() == "true" else COLUMNS


def messages_of(value: object, topic: str, first: int, now: float) -> list[tuple[Any, ...]]:
    """Return messages as rows with Kafka's columns.

    Args:
        value: a list of messages: a dict, whose JSON text is the value; a text or bytes, which are the value; a tuple
            of key and value; or a dict with `value` and other columns of Kafka. Or a text table, a file or a DataFrame,
            each row of which is a message with a JSON value.
        topic: the topic.
        first: the offset of the first message.
        now: the time of messages without one, in seconds since the epoch.

    Raises:
        UserError: TEST_MESSAGE_INVALID.
    """
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    items: Sequence[Any] = value if is_list else _json_values(Rows.of(value))  # type: ignore[assignment]
    return [_message(item, topic, first + number, now) for number, item in enumerate(items)]


def _json_values(rows: Rows) -> list[str]:
    schema = rows.inferred()
    return [json_row(schema, row) for row in rows.typed(schema)]


def _message(item: object, topic: str, offset: int, now: float) -> tuple[Any, ...]:
    given: dict[str, Any] = {"value": item}
    if isinstance(item, tuple):
        if len(item) != 2:
            raise UserError("TEST_MESSAGE_INVALID", topic=topic, message=repr(item))
        given = {"key": item[0], "value": item[1]}
    elif isinstance(item, Mapping) and "value" in item and set(item) <= _NAMES:
        given = dict(item)
    elif isinstance(item, Path):
        given = {"value": item.read_bytes()}
    return (
        _bytes(given.get("key")), _bytes(given.get("value")), given.get("topic", topic), given.get("partition", 0),
        given.get("offset", offset), _moment(given.get("timestamp"), now), given.get("timestampType", 0),
        _headers(given.get("headers")),
    )  # fmt: skip


def _bytes(value: object) -> bytes | None:
    """Return a key or a value as bytes: texts in UTF-8, and anything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    rows = Rows.of([{"value": value}])
    (field,) = rows.inferred().fields
    ((typed,),) = rows.typed(rows.inferred())
    return json_text(typed, field.dataType).encode()


def _moment(value: object, now: float) -> datetime:
    if value is None:
        return datetime.fromtimestamp(now, tz=UTC)
    ((typed,),) = Rows.of([{"timestamp": value}]).typed(StructType([StructField("timestamp", TimestampType())]))
    assert isinstance(typed, datetime)
    return typed


def _headers(headers: object) -> list[tuple[str, bytes | None]] | None:
    if headers is None:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    assert not isinstance(pairs, str)
    return [(key, _bytes(value)) for key, value in pairs]  # type: ignore[attr-defined]
