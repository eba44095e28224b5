"""Events that violate the contract of a batch, as conditions over the rows of a flow's source.

`check_contract` counts them in normalized events and fails the batch; quarantine removes their rows before
normalization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.normalize import align_sequence
from framework.cdc.model.columns import column, is_storable, match_field
from framework.declare.specs import AutoCdcSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NULL_KEY = "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY"
PARTITION_KEY = "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY"
NULL_SEQUENCE = "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE"


def event_faults(source: DataFrame, spec: AutoCdcSpec, target: CdcTarget, *, literal: bool) -> dict[str, Column]:
    """Return, per condition of the contract, whether a row violates it; never NULL.

    Args:
        source: the rows of the flow's source.
        spec: the flow's declaration.
        target: the target.
        literal: whether the flow's sequence is a once flow's literal, which every event has.
    """
    is_event = F.lit(True) if spec.where is None else _is_true(spec.where)  # noqa: FBT003 - a literal column
    keyed = is_event if spec.apply_as_truncates is None else is_event & ~_is_true(spec.apply_as_truncates)
    keys = {key: column(field.name) for key in target.keys if (field := match_field(source.schema, key)) is not None}
    faults = {NULL_KEY: keyed & _any([key.isNull() for key in keys.values()])}
    stored = [
        ~F.coalesce(is_storable(keys[key], target.table_schema[key].dataType), F.lit(True))  # noqa: FBT003 - a literal column
        for key in keys
        if key in target.text_partitions
    ]
    if stored:
        faults[PARTITION_KEY] = keyed & _any(stored)
    if not literal and target.sequence_type is not None:
        sequence = F.expr(spec.sequence_by)
        have = source.select(sequence.alias("sequence")).schema["sequence"].dataType
        faults[NULL_SEQUENCE] = is_event & align_sequence(sequence, have, target.sequence_type).isNull()
    return faults


def _is_true(condition: str) -> Column:
    return F.coalesce(F.expr(condition), F.lit(False))  # noqa: FBT003 - a literal column


def _any(conditions: list[Column]) -> Column:
    found = F.lit(False)  # noqa: FBT003 - a literal column
    for condition in conditions:
        found = found | condition
    return found
