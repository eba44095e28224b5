"""The constant facts of a dialect: its drivers, the meaning of its errors, and their remedies. They need no driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Remedy(StrEnum):
    """A remedy for an error of a source; a diagnosis lists its remedies best first."""

    NEW_POSITION = "new position"
    """Begin the log at a new position, and read all tables again."""
    RESYNC = "resync"
    """Read one table again."""
    FULL_REFRESH = "full refresh"
    FOLLOW = "follow the error"
    RUN_AGAIN = "run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDiagnosis:
    """The explanation of a group of errors of a database.

    Args:
        name: stable name.
        meaning: the explanation, as sentences.
        conditions: the conditions that it explains, each including the conditions that begin with its name.
        patterns: regular expressions for the texts of errors that have no condition.
        remedies: the remedies, best first.
    """

    name: str
    meaning: str
    conditions: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GapEnd:
    """How to end a gap that a new position of the log should not end.

    Args:
        statement: the statement at the source that ends it, in which `{tables}` is the name of the list of tables, for
            SQL; empty if only a code change can.
        is_lost: whether changes are missing.
    """

    statement: str = ""
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectFacts:
    """The data of a dialect.

    Args:
        connection_example: a connection string with placeholder words.
        drivers: the modules that it imports.
        install: the command that installs them.
        tls_parameters: the parameters of a connection that decide about TLS, for messages.
        login_rules: what a login depends on apart from user and password, for messages.
        position_noun: the word of the database for the position that it keeps for a reader; empty if it keeps none.
        drop_statement: the statement that drops it, with `{position}` and `{tables}`, the names of a `LogName`; empty
            if nothing is kept.
        diagnoses: the diagnoses of its own errors.
        explained: its own conditions that a diagnosis of every source explains, by the name of the diagnosis.
        gap_ends: the gaps that a new position should not end, by their conditions.
        log_in_use: the condition of a log that another reader reads, if it allows one reader only; empty without such
            a log.
        table_gaps: the conditions of tables whose log lacks changes, in addition to the conditions of every dialect.
        retryable: the conditions under which a retry may succeed without any other change.
        has_logs_of_servers: whether each server has positions of its own, so that those of a successor can't be
            compared with them.
    """

    connection_example: str = ""
    drivers: tuple[str, ...] = ()
    install: str = ""
    tls_parameters: str = ""
    login_rules: str = ""
    position_noun: str = ""
    drop_statement: str = ""
    diagnoses: tuple[SourceDiagnosis, ...] = ()
    explained: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    gap_ends: Mapping[str, GapEnd] = field(default_factory=lambda: MappingProxyType({}))
    log_in_use: str = ""
    table_gaps: frozenset[str] = frozenset()
    retryable: frozenset[str] = frozenset()
    has_logs_of_servers: bool = False
