"""What a dialect supplies as data: its drivers, what its errors mean, and how they end. It needs no driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Remedy(StrEnum):
    """What somebody can do about a fault of a source, best first in a diagnosis."""

    NEW_POSITION = "new position"
    """Begin the log at a new position, and read all tables again."""
    RESYNC = "resync"
    """Read one table again."""
    FULL_REFRESH = "full refresh"
    FOLLOW = "follow the error"
    RUN_AGAIN = "run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDiagnosis:
    """What some faults of a database mean.

    Args:
        name: stable name.
        meaning: the explanation, as sentences.
        conditions: the conditions that it explains, each with all that begin with its name.
        patterns: regular expressions for the texts of faults that have no condition.
        remedies: what can be done, best first.
    """

    name: str
    meaning: str
    conditions: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GapEnd:
    """How a gap ends that a new position of the log should not end.

    Args:
        statement: the statement at the source that ends it, in which `{tables}` is the name of the list of tables, for
            SQL; empty if only the code can.
        is_lost: whether changes are missing.
    """

    statement: str = ""
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectFacts:
    """The data of a dialect.

    Args:
        connection_example: a connection string, with words in place of its parts.
        drivers: the modules that it imports.
        install: the command that installs them.
        position_noun: what the database calls the position that it keeps for a reader; empty if it keeps none.
        drop_statement: the statement that drops it, with `{position}` and `{tables}`, the names of a `LogName`; empty
            if nothing is kept.
        diagnoses: of its own faults.
        explained: the conditions of its own that a diagnosis of every source explains, by the name of the diagnosis.
        gap_ends: the gaps that a new position should not end, by their conditions.
        log_in_use: the condition of a log that only one may read, and another one reads; empty without such a log.
        table_gaps: the conditions of tables whose log lacks changes, beside those of every dialect.
        retryable: the conditions that another attempt may heal without any other change.
    """

    connection_example: str = ""
    drivers: tuple[str, ...] = ()
    install: str = ""
    position_noun: str = ""
    drop_statement: str = ""
    diagnoses: tuple[SourceDiagnosis, ...] = ()
    explained: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    gap_ends: Mapping[str, GapEnd] = field(default_factory=lambda: MappingProxyType({}))
    log_in_use: str = ""
    table_gaps: frozenset[str] = frozenset()
    retryable: frozenset[str] = frozenset()
