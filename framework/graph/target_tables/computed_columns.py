"""The rules for columns that Delta computes: generated and identity columns, and columns with a default.

Delta refuses an invalid column when it creates the table, after other tables were written. `validate` reports it first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StructField, StructType

from framework.declare.specs import DatasetSpec
from framework.engine.delta.definitions import validate_generated_columns
from framework.engine.sessions.session import no_rows
from framework.foundation.computed_columns import (
    DEFAULT,
    STEP,
    definition,
    has_default,
    is_computed,
    is_generated,
    is_identity,
    takes_no_values,
)
from framework.foundation.errors import UserError
from framework.graph.queries.calls import SPARK_ERRORS, first_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_computed(spec: DatasetSpec, declared: StructType, stored: StructType | None, session: SparkSession) -> None:
    """Check the columns of a declared schema that Delta computes.

    Args:
        spec: the declaration.
        declared: its schema.
        stored: the schema of a table whose rows stay, if there is one.
        session: the session of the queries.

    Raises:
        UserError: COMPUTED_COLUMN_INVALID, or COMPUTED_COLUMN_CHANGED if the table computes the column differently.
    """
    for field in filter(is_computed, declared.fields):
        cause = _fault_of_identity(spec, field) or _fault_of_default(field, session)
        if cause:
            raise _invalid(spec, field, cause)
    generated = next(filter(is_generated, declared.fields), None)
    cause = "" if generated is None else _fault_of_expressions(declared, session)
    if generated is not None and cause:
        raise _invalid(spec, generated, cause)
    changed = [] if stored is None else [*_changed(declared, stored)]
    if changed:
        raise UserError(
            "COMPUTED_COLUMN_CHANGED", location=spec.location, dataset=spec.name, columns=", ".join(changed)
        )


def _invalid(spec: DatasetSpec, field: StructField, cause: str) -> UserError:
    return UserError(
        "COMPUTED_COLUMN_INVALID", location=spec.location, dataset=spec.name, column=field.name, cause=cause
    )


def _fault_of_identity(spec: DatasetSpec, field: StructField) -> str:
    if not is_identity(field):
        return ""
    if not isinstance(field.dataType, LongType):
        return f"An identity column has type BIGINT, and not {field.dataType.simpleString()}."
    if field.metadata.get(STEP, 1) == 0:
        return "INCREMENT BY must not be 0."
    partitions = {column.lower() for column in spec.partition_columns}
    return "Delta has no partitions by an identity column." if field.name.lower() in partitions else ""


def _fault_of_default(field: StructField, session: SparkSession) -> str:
    if not has_default(field):
        return ""
    try:
        no_rows(session).select(sql.expr(f"CAST(({field.metadata[DEFAULT]}) AS {field.dataType.simpleString()})"))
    except SPARK_ERRORS as error:
        return first_words(error)
    return ""


def _fault_of_expressions(declared: StructType, session: SparkSession) -> str:
    try:
        validate_generated_columns(session, declared)
    except SPARK_ERRORS as error:
        return first_words(error)
    return ""


def _changed(declared: StructType, stored: StructType) -> Iterator[str]:
    """Yield the columns that the table does not compute as declared, so that stored rows have other values."""
    before = {field.name.lower(): field for field in stored.fields}
    for field in declared.fields:
        known = before.get(field.name.lower())
        found = definition({} if known is None else known.metadata)
        if found != definition(field.metadata):
            yield field.name


def returned_identities(declared: StructType, returned: StructType) -> list[str]:
    """Return the columns that queries return although only Delta may number them."""
    names = {field.name.lower() for field in declared.fields if takes_no_values(field)}
    return [field.name for field in returned.fields if field.name.lower() in names]
