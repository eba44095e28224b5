"""The declared schema of a dataset, from DDL text or JSON, and whether the types of its queries fit it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from framework.declare.specs import DatasetSpec
from framework.engine.plans.ddl import columns_of_create_table, schema_of_ddl
from framework.foundation.errors import UserError
from framework.foundation.wording import exception_text
from framework.graph.queries.calls import SPARK_ERRORS, first_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`")
"""Comments and quoted names: words in them are not clauses."""

_DDL = "Write a DDL string, for example `id BIGINT`."
_CLAUSES = {
    r"CONSTRAINT|CHECK|(PRIMARY|FOREIGN)\s+KEY": "CHECK constraints are not supported. Leave them out; "
    "`@dp.expect_or_fail` (in SQL: EXPECT … ON VIOLATION FAIL UPDATE) checks a condition in each row. PRIMARY KEY and "
    "FOREIGN KEY name columns in parentheses.",
    r"IDENTITY": "Write `GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1)`; the type is BIGINT.",
    r"GENERATED": "Write `GENERATED ALWAYS AS (expression)` after the type.",
}
"""Advice about DDL clauses that Spark does not parse, by their words."""

_MASK = re.compile(r"\bMASK\b", re.IGNORECASE)


def parse_schema(spec: DatasetSpec, frame: DataFrame) -> StructType | None:
    """Parse the declared schema from DDL text or JSON; None if no schema was declared.

    Raises:
        UserError: INVALID_SCHEMA if the text cannot be parsed; COLUMN_MASK_NOT_SUPPORTED.
    """
    if spec.schema is None:
        return None
    if spec.schema.lstrip().startswith("{"):
        return _schema_of_json(spec)
    if _MASK.search(_TEXT.sub("", spec.schema)):
        raise UserError("COLUMN_MASK_NOT_SUPPORTED", location=spec.location, dataset=spec.name)
    try:
        return schema_of_ddl(spec.schema)
    except SPARK_ERRORS:
        return _with_clauses(spec, frame.sparkSession)


def _with_clauses(spec: DatasetSpec, session: SparkSession) -> StructType:
    """Parse a schema with clauses that only tables support (GENERATED, IDENTITY, DEFAULT), in any order."""
    schema = spec.schema or ""
    try:
        columns = columns_of_create_table(session, f"CREATE TABLE t ({schema}\n) USING delta")
    except SPARK_ERRORS as error:
        raise _invalid(spec, first_words(error), schema_advice(schema)) from error
    if columns is None:
        raise _invalid(spec, "It has a constraint.", schema_advice("CONSTRAINT"))
    return columns


def _schema_of_json(spec: DatasetSpec) -> StructType:
    try:
        return StructType.fromJson(json.loads(spec.schema or ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _invalid(spec, exception_text(error), _DDL) from error


def _invalid(spec: DatasetSpec, cause: str, advice: str) -> UserError:
    return UserError("INVALID_SCHEMA", location=spec.location, dataset=spec.name, cause=cause, advice=advice)


def schema_advice(text: str) -> str:
    """Return advice about a DDL text that Spark can't parse."""
    clauses = _TEXT.sub("", text)
    found = (advice for words, advice in _CLAUSES.items() if re.search(rf"\b({words})\b", clauses, re.IGNORECASE))
    return next(found, _DDL)


def is_same_type(first: DataType, second: DataType) -> bool:
    """Return whether two types are equal except for the nullability and the comments of their parts."""
    ours, theirs = _parts(first), _parts(second)
    if not ours or type(first) is not type(second):
        return first == second
    return [name for name, *_ in ours] == [name for name, *_ in theirs] and all(
        is_same_type(one, other) for (_, one, _), (_, other, _) in zip(ours, theirs, strict=True)
    )


def nullable_parts(declared: DataType, found: DataType, path: str) -> Iterator[str]:
    """Yield the paths of parts that are declared NOT NULL but may be NULL in a query's rows.

    Args:
        declared: the declared type.
        found: the type in the query, which may have fewer fields.
        path: the path of the value.
    """
    theirs = {name.lower(): (kind, is_nullable) for name, kind, is_nullable in _parts(found)}
    for name, kind, may_be_null in _parts(declared):
        its_kind, is_nullable = theirs.get(name.lower(), (kind, True))
        if is_nullable and not may_be_null:
            yield f"{path}.{name}"
        yield from nullable_parts(kind, its_kind, f"{path}.{name}")


def _parts(data_type: DataType) -> list[tuple[str, DataType, bool]]:
    """Return the name, the type and the nullability of each part of a nested type."""
    if isinstance(data_type, StructType):
        return [(field.name, field.dataType, field.nullable) for field in data_type.fields]
    if isinstance(data_type, ArrayType):
        return [("element", data_type.elementType, data_type.containsNull)]
    if isinstance(data_type, MapType):
        key = ("key", data_type.keyType, False)
        return [key, ("value", data_type.valueType, data_type.valueContainsNull)]
    return []
