"""How to let a flow that fails at a faulty row continue: the change of the code, and the replay after the fix.

For each condition, the change that turns the failure into a row dropped by `expect_or_drop`; the quarantine then keeps
the row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from framework.declare.quarantine import QUARANTINE, VALUES, quarantine_property
from framework.declare.specs import DatasetKind
from framework.recovery.doctor.broken_flow import BrokenFlow

_VIOLATED = "EXPECTATION_VIOLATION"
_NAME = re.compile(r"violates the expectation (['\"])(?P<name>.*?)\1\.")
_TRY = (
    "use a function that returns NULL instead of failing in the query, such as `try_cast`, keep the original value as "
    'a column, and declare `@dp.expect_or_drop("valid", "COLUMN IS NOT NULL")` for {dataset}'
)
_PARSED = (
    "read in the mode PERMISSIVE with the column `_corrupt_record` in the schema, and declare "
    '`@dp.expect_or_drop("parsed", "_corrupt_record IS NULL")` for {dataset}'
)
_CONSTRAINT = "declare the condition of the constraint as `@dp.expect_or_drop` for {dataset}"
_CHANGES: Mapping[str, str] = {
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY": "",
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE": "",
    "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY": "",
    "AUTOCDC_CONSTRAINT_VIOLATED": _CONSTRAINT,
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": _CONSTRAINT,
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": _CONSTRAINT,
    "CAST_INVALID_INPUT": _TRY,
    "CAST_OVERFLOW": _TRY,
    "NUMERIC_VALUE_OUT_OF_RANGE": _TRY,
    "DIVIDE_BY_ZERO": _TRY,
    "MALFORMED_RECORD_IN_PARSING": _PARSED,
    "MALFORMED_CSV_RECORD": _PARSED,
    "PYTHON_EXCEPTION": (
        "let the function return NULL for rows that it can't process, and declare "
        '`@dp.expect_or_drop("processed", "COLUMN IS NOT NULL")` for {dataset}'
    ),
}
"""The change that lets an expectation drop the row, by condition; AUTO CDC quarantines invalid events by itself."""


def quarantining(case: BrokenFlow) -> str | None:
    """Return how to quarantine the faulty rows of a flow; None if the flow can't have a quarantine.

    Only streaming tables have one. A row left out of a snapshot would count as a delete, and the copy of a database
    must not lack rows. A damaged file has no rows to keep.
    """
    spec, flow = case.dataset.spec, case.flow.spec
    if case.dataset.kind is not DatasetKind.STREAMING_TABLE or flow.from_snapshots or case.ingested() is not None:
        return None
    change = _change(case)
    if change is None:
        return None
    setting = quarantine_property(spec)
    is_on = setting is not None and VALUES.get(setting, False)
    # A pipeline may also set it in its configuration; the property is harmless then.
    asked = "" if is_on else f'set the table property `"{QUARANTINE}": "true"` of {spec.name}'
    steps = "; ".join(step for step in (change, asked) if step)
    return (
        f"Quarantine these rows: {steps}. Then `sluice run` goes on with the other rows. After the fix, "
        f"`sluice quarantine replay {flow.name}` writes the quarantined ones."
    )


def _change(case: BrokenFlow) -> str | None:
    if case.condition == _VIOLATED:
        return _turned(case)
    change = _CHANGES.get(case.condition)
    return None if change is None else change.format(dataset=case.dataset.name)


def _turned(case: BrokenFlow) -> str | None:
    """Return the change for a violated `expect_or_fail`; a view's moves to the table, because a view keeps no rows."""
    found = _NAME.search(case.cause)
    if found is None:
        return None
    name = found["name"]
    of_table = any(each.name == name for each in case.dataset.spec.expectations)
    moved = "" if of_table else f" for {case.dataset.name} instead of the view"
    return f'declare the expectation "{name}" with `expect_or_drop`{moved}'
