"""The first way out of an error, for the text of an alert; it loads the diagnoses of all dialects."""

from __future__ import annotations

import re
from collections.abc import Sequence

from framework.recovery.doctor.diagnoses import UNKNOWN, diagnosis_of

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")


def first_way(error: str, flows: Sequence[str]) -> str:
    """Return the meaning of an error and its first way out, with the command that has all ways.

    Args:
        error: the text of the error, which may begin with its condition.
        flows: the full names of the flows that failed.

    Examples:
        >>> first_way("[KAFKA_DATA_LOSS] Records are gone.", ["main.shop.orders"]).partition("First")[2]
        ' way out: reset the lost partitions. `sluice doctor main.shop.orders` has all ways with their cost.'
    """
    found = _CONDITION.search(error)
    diagnosis = diagnosis_of(found[1] if found else "", error)
    command = f"`sluice doctor {flows[0]}`" if flows else "`sluice doctor`"
    meaning = "" if diagnosis is UNKNOWN else f"{diagnosis.meaning} "
    first = f"First way out: {diagnosis.ways[0].value}. " if diagnosis.ways else ""
    return f"{meaning}{first}{command} has all ways with their cost."
