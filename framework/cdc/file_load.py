"""First load of a target from files that already have the hidden column: a commit without a rewrite.

All rows of a snapshot have the same sequence, so the hidden column consists of constants and the fingerprint of the
row's values. The writer of the files can add it. The files can then be added to the target unchanged if their keys are
distinct and no row of the target can have one of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, IntegralType, StructType

from framework.cdc.apply import locked
from framework.cdc.delta.auxiliary_table import table_exists
from framework.cdc.delta.transaction import Transaction
from framework.cdc.events.key_bounds import KeyRange
from framework.cdc.events.normalize import ORDER, read_events
from framework.cdc.initial_load import NewFileStatistics, has_distinct_keys, is_one_number, may_load
from framework.cdc.model.columns import column
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import CONTENT, HIDDEN_COLUMN, ONCE, SEQUENCE
from framework.engine.delta.new_files import NewFile
from framework.engine.delta.transaction_identifiers import CONFLICTS
from framework.engine.plans.expressions import constant_text, identity
from framework.engine.plans.plans import (
    leaves_of,
    node_name,
    optimized_plan,
    output_of,
    selected_columns,
    selects_from_leaf,
)
from framework.foundation.added_columns import AddedColumn
from framework.foundation.failpoints import failpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.delta.destination import Destination
    from framework.declare.specs import AutoCdcSpec

_POINT = "__sluice_point"


def added_column(rows: DataFrame, spec: AutoCdcSpec, target: CdcTarget, *, literal: bool) -> AddedColumn | None:
    """Return the column that turns source rows into target rows; None if more changes are needed.

    Args:
        rows: the flow's query over an empty relation with the source's columns, which Spark can't recognize as empty.
        spec: the flow's declaration.
        target: the target.
        literal: whether the flow's sequence is a once flow's literal.
    """
    kind = target.hidden_type
    is_plain = target.scd_type == 1 and target.flag is None and set(kind.fieldNames()) <= {SEQUENCE, ONCE, CONTENT}
    if not (is_plain and may_load(spec, target) and all(map(_is_portable, _point_types(kind)))):
        return None
    events = read_events(rows, spec, target, literal=literal)
    point = F.struct(*(column(ORDER).getField(name).alias(name) for name in _point_names(target)))
    names = target.row_schema.fieldNames()
    shown = events.where(column(ORDER).isNotNull()).select(*map(column, names), F.to_json(point).alias(_POINT))
    found = _columns_of(shown)
    if found is None or not _are_columns_of(found[:-1], target, rows):
        return None
    constants = constant_text(found[-1])
    if constants is None or not json.loads(constants):
        return None
    return AddedColumn(
        name=HIDDEN_COLUMN,
        type_json=kind.json(),
        constants_json=constants,
        hash_field=CONTENT,
        hashed=tuple(sorted((field.name for field in target.value_fields), key=str.lower)),
        key=target.keys[0] if is_one_number(target) else None,
    )


def load_files(
    session: SparkSession, files: Sequence[NewFile], destination: Destination, batch_id: int
) -> CdcMetrics | None:
    """Add files to the target in one commit; None if their rows must be applied as events.

    Args:
        session: the flow's session.
        files: in the folder of the target.
        destination: the target.
        batch_id: the number of the batch that the files contain.
    """
    target, batch = destination.target, destination.batch(batch_id)
    found = NewFileStatistics(files=[json.loads(file.statistics) for file in files])
    counts = found.key_counts(target)
    if not files or counts is None or not all(file.is_stamped for file in files):
        return None
    with locked(destination.table):
        transaction = Transaction.begin(session, destination.table, target.table_schema)
        if transaction is None or not transaction.takes_files() or table_exists(session, destination.auxiliary):
            return None
        if transaction.has_applied(batch) or not _is_new(transaction, found, target):
            return None
        transaction.add_files(files)
        if not _are_distinct(files, found, target) and not has_distinct_keys(
            transaction.added_rows(), target, found, counts
        ):
            return None
        loaded = CdcMetrics(rows=counts, upserted=counts)
        try:
            transaction.commit(batch, loaded)
        except CONFLICTS:
            return None
    failpoint("cdc.after_merge")
    return loaded


def _is_new(transaction: Transaction, found: NewFileStatistics, target: CdcTarget) -> bool:
    """Return whether no row of the target can have a key of the files."""
    span = found.span(target.keys[0]) if is_one_number(target) else None
    if span is None:
        return transaction.has_no_rows()
    key = target.keys[0]
    # The bounds are used if the table has more files than the last commit lists; the span is for listed files.
    bounds = KeyRange(least=span[0], most=span[1], data_type=target.table_schema[key].dataType, span=span)
    return transaction.has_no_rows({key: bounds})


def _are_distinct(files: Sequence[NewFile], found: NewFileStatistics, target: CdcTarget) -> bool:
    """Return whether keys are known to be distinct: within each file, and by disjoint ranges between files."""
    if not is_one_number(target) or not all(file.has_distinct_keys for file in files):
        return False
    spans = [NewFileStatistics(files=[file]).span(target.keys[0]) for file in found.files]
    known = sorted(span for span in spans if span is not None)
    return len(known) == len(files) and all(a[1] < b[0] for a, b in pairwise(known))


def _point_names(target: CdcTarget) -> list[str]:
    return [name for name in target.order_type.names if name != CONTENT]


def _point_types(kind: StructType) -> list[DataType]:
    return [field.dataType for field in kind.fields if field.name != CONTENT]


def _is_portable(kind: DataType) -> bool:
    """Return whether JSON represents the values of a type exactly."""
    if isinstance(kind, StructType):
        return all(_is_portable(field.dataType) for field in kind.fields)
    return isinstance(kind, IntegralType | DoubleType)


def _columns_of(frame: DataFrame) -> list[Any] | None:
    """Return the expressions of a query that only selects from its source; None if it does more."""
    plan = optimized_plan(frame)
    return selected_columns(plan) if selects_from_leaf(plan) else None


def _are_columns_of(found: Sequence[Any], target: CdcTarget, rows: DataFrame) -> bool:
    """Return whether the target's columns are source columns with unchanged names and types."""
    fields = target.row_schema.fields
    identities = {identity(each) for each in output_of(leaves_of(rows)[0])}
    same = [
        str(each.name()) == field.name
        and node_name(each) == "AttributeReference"
        and identity(each) in identities
        and str(each.dataType().simpleString()) == field.dataType.simpleString()
        for each, field in zip(found, fields, strict=True)
    ]
    return all(same) and len(same) == len(identities)
