"""Schemas parsed from DDL by Spark's parser, including column clauses that only tables have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from framework.engine.jvm.java import java_class, scala_items
from framework.foundation.computed_columns import DEFAULT, EXPLICIT, GENERATED, START, STEP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_of_ddl(text: str) -> StructType:
    """Return the schema of a DDL text; exceptions of Spark's parser are not caught."""
    return StructType.fromJson(json.loads(java_class("org.apache.spark.sql.types.StructType").fromDDL(text).json()))


def columns_of_create_table(spark: SparkSession, statement: str) -> StructType | None:
    """Return the columns of a `CREATE TABLE`, with generation expressions and identities in their metadata.

    Args:
        spark: the session whose parser reads the statement; the parser's exceptions are not caught.
        statement: the statement; it is not run.

    Returns:
        The columns; None if the statement has a constraint.
    """
    plan: Any = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    if not plan.tableSpec().constraints().isEmpty():
        return None
    return StructType([_column(each) for each in scala_items(plan.columns())])


def _column(found: Any) -> StructField:
    kind = _parse_datatype_json_string(found.dataType().json())
    metadata: dict[str, Any] = {}
    if found.comment().isDefined():
        metadata["comment"] = str(found.comment().get())
    if found.defaultValue().isDefined():
        metadata[DEFAULT] = str(found.defaultValue().get().originalSQL())
    if found.generationExpression().isDefined():
        metadata[GENERATED] = str(found.generationExpression().get())
    if found.identityColumnSpec().isDefined():
        identity = found.identityColumnSpec().get()
        metadata |= {
            START: int(identity.getStart()),
            STEP: int(identity.getStep()),
            EXPLICIT: bool(identity.isAllowExplicitInsert()),
        }
    return StructField(str(found.name()), kind, bool(found.nullable()), metadata)
