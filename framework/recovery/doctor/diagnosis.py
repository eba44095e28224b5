"""A diagnosis: the faults that it explains, and its ways out, best first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Way(StrEnum):
    """The kinds of ways out; `ways` computes the command and the cost of each one for a flow."""

    RESTORE = "restore the code"
    TRACK_SCHEMA = "track the schema"
    ALLOW_CHANGE = "allow the change"
    ROLL_BACK = "roll back"
    RESET_HERE = "reset to the position"
    RESET_PARTITIONS = "reset the lost partitions"
    RESET_FIRST_KEPT = "reset to the first kept version"
    RESET_AFTER_COMMON = "reset to after the last common version"
    RESET_AFTER_CHANGE = "reset to after the change"
    RESET_AT_CHANGE = "reset to the change"
    RESET_EARLIEST = "reset to the earliest record"
    RESET_LATEST = "reset to the latest record"
    RESET_START = "reset to the start"
    FULL_REFRESH = "full refresh"
    RUN_AGAIN = "run again"
    REWIND = "rewind"
    RESYNC = "resync"
    REPLACE_POSITION = "replace the position"
    RESUME = "resume"
    QUARANTINE = "quarantine the rows"
    ALLOW_NULL = "allow NULL"
    FOLLOW = "follow the error"
    FREE_RESOURCES = "free resources"
    RESTART = "restart"
    ADD_CAPACITY = "add capacity"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A condition and all conditions whose names begin with its name.

    Args:
        condition: its name.
        sqlstate: its SQLSTATE in Spark, Delta or the Kafka connector; empty for a condition of Sluice.
    """

    condition: str
    sqlstate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The meaning of a fault, and its ways out.

    Args:
        name: stable name.
        meaning: the explanation, as sentences.
        faults: the conditions that it explains.
        patterns: regular expressions for the causes of exceptions that have no condition.
        ways: the ways out, best first; those that do not apply to a flow are left out.
    """

    name: str
    meaning: str
    faults: tuple[Fault, ...] = ()
    patterns: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
