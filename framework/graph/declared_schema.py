"""The declared schema of a dataset, from DDL text or JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from framework.declare.specs import DatasetSpec
from framework.foundation.errors import UserError
from framework.foundation.wording import exception_text
from framework.graph.calls import SPARK_ERRORS, first_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`")
"""Comments and quoted names, whose words are no clauses."""

_DDL = "Write a DDL string, for example `id BIGINT`."
_CLAUSES = {
    r"AS\s+IDENTITY": "`GENERATED … AS IDENTITY` is not supported. Leave it out, and compute the column in the query.",
    r"GENERATED": "`GENERATED ALWAYS AS` is not supported. Leave it out, and compute the column in the query.",
    r"DEFAULT": "`DEFAULT` is not supported. Leave it out, and replace NULL in the query, with `coalesce`.",
    r"CONSTRAINT|(PRIMARY|FOREIGN)\s+KEY": "Keys and constraints are not supported. Leave them out; "
    "`@dp.expect_or_fail` checks a condition in each row.",
    r"MASK": "`MASK` is not supported. Leave it out, and return masked values in the query.",
}
"""What to do about clauses of Databricks' DDL that Spark does not parse, by their words."""


def parse_schema(spec: DatasetSpec, frame: DataFrame) -> StructType | None:
    """Parse the declared schema from DDL text or JSON; None if no schema was declared.

    Raises:
        UserError: INVALID_SCHEMA if the text cannot be parsed.
    """
    if spec.schema is None:
        return None
    if spec.schema.lstrip().startswith("{"):
        return _schema_of_json(spec)
    jvm: Any = frame.sparkSession._jvm
    try:
        text = jvm.org.apache.spark.sql.types.StructType.fromDDL(spec.schema).json()
    except SPARK_ERRORS as error:
        raise UserError(
            "INVALID_SCHEMA",
            location=spec.location,
            dataset=spec.name,
            cause=first_words(error),
            advice=schema_advice(spec.schema),
        ) from error
    return StructType.fromJson(json.loads(text))


def _schema_of_json(spec: DatasetSpec) -> StructType:
    try:
        return StructType.fromJson(json.loads(spec.schema or ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        cause = exception_text(error)
        raise UserError(
            "INVALID_SCHEMA", location=spec.location, dataset=spec.name, cause=cause, advice=_DDL
        ) from error


def schema_advice(text: str) -> str:
    """Return what to do about a DDL text that Spark can't parse."""
    clauses = _TEXT.sub("", text)
    found = (advice for words, advice in _CLAUSES.items() if re.search(rf"\b({words})\b", clauses, re.IGNORECASE))
    return next(found, _DDL)
