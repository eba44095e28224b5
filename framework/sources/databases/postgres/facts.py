"""Explanations and remedies of PostgreSQL's errors, for the status of ingestions and for the doctor."""

from __future__ import annotations

from framework.sources.databases.facts import DialectFacts, GapEnd, Remedy, SourceDiagnosis

_LOST = "DATABASE_POSITION_LOST"
_KEPT = ("PARTITION_ROOT", "OTHER_SLOT", "TWO_PHASE")

FACTS = DialectFacts(
    connection_example="postgresql://user:password@host:port/database",
    drivers=("psycopg2", "adbc_driver_postgresql"),
    install="pip install 'sluice-spark[postgres]'",
    tls_parameters="`sslmode` and `sslrootcert`",
    login_rules="the server's rules for this machine (pg_hba.conf)",
    position_noun="slot",
    drop_statement="SELECT pg_drop_replication_slot('{position}'); DROP PUBLICATION {tables}",
    diagnoses=(
        SourceDiagnosis(
            name="POSTGRES_POSITION_LOST",
            meaning="The server no longer has the changes after the stored position: the slot is missing, lost, "
            "invalid or ahead. Changes in between are in no log.",
            conditions=(
                "DATABASE_SLOT_LOST",
                *(f"{_LOST}.{each}" for each in ("SLOT_MISSING", "SLOT_INVALID", "SLOT_AHEAD", "PUBLICATION")),
            ),
            remedies=(Remedy.NEW_POSITION, Remedy.FOLLOW),
        ),
        SourceDiagnosis(
            name="POSTGRES_SLOT_OF_ANOTHER",
            meaning="The slot or the publication of this name belongs to another database or program, which may need "
            "it.",
            conditions=(
                "DATABASE_SLOT_FOREIGN",
                "DATABASE_SLOT_NOT_OURS",
                "DATABASE_SLOT_OF_OTHER_STORAGE",
                "DATABASE_PUBLICATION_NOT_OURS",
                f"{_LOST}.SLOT_REPLACED",
            ),
            remedies=(Remedy.FOLLOW,),
        ),
        SourceDiagnosis(
            name="POSTGRES_TRANSACTION_PREPARED",
            meaning="A transaction that was prepared, and neither committed nor rolled back, holds the start up.",
            conditions=("DATABASE_TRANSACTIONS_OPEN.PREPARED",),
            remedies=(Remedy.FOLLOW, Remedy.RUN_AGAIN),
        ),
        SourceDiagnosis(
            name="POSTGRES_POSITION_KEPT",
            meaning="The server has the changes, but the publication names partitions, the code names another slot, or "
            "the slot sends prepared transactions.",
            conditions=tuple(f"{_LOST}.{each}" for each in _KEPT),
            remedies=(Remedy.FOLLOW, Remedy.NEW_POSITION),
        ),
    ),
    explained={
        "SOURCE_TABLE_CHANGED": (
            "DATABASE_TABLE_UNLOGGED",
            "DATABASE_FOREIGN_PARTITION",
            "DATABASE_REPLICA_IDENTITY",
            "DATABASE_KEY_NOT_LOGGED",
        ),
        "SOURCE_TABLE_REPLACED": (
            "DATABASE_PUBLICATION_FILTERED",
            "DATABASE_PARTITION_TRUNCATED",
            "DATABASE_PARTITION_GONE",
            "DATABASE_CHANGE_WITHOUT_KEY",
        ),
        "PERMISSION_MISSING": (
            "DATABASE_REPLICATION_ROLE",
            "DATABASE_LOG_NOT_READABLE",
            "DATABASE_PUBLICATION_MISSING",
            "DATABASE_PUBLICATION_WITHOUT_TABLE",
            "DATABASE_PUBLICATION_INCOMPLETE",
            "DATABASE_SCHEMA_USAGE",
            "DATABASE_ROWS_HIDDEN",
        ),
        "ROW_NOT_USABLE": ("DATABASE_TEXT_NOT_UTF8",),
        "RESOURCES_EXHAUSTED": ("DATABASE_SLOTS_EXHAUSTED", "DATABASE_SENDERS_EXHAUSTED"),
        "CONNECTION_LOST": (
            "DATABASE_SLOT_IN_USE",
            "DATABASE_POSITION_BUSY",
            "DATABASE_TRANSACTIONS_OPEN",
            "DATABASE_COMMIT_NOT_VISIBLE",
        ),
    },
    gap_ends={
        f"{_LOST}.PARTITION_ROOT": GapEnd(
            statement="ALTER PUBLICATION {tables} SET (publish_via_partition_root = true)"
        ),
        f"{_LOST}.OTHER_SLOT": GapEnd(),
        f"{_LOST}.SLOT_REPLACED": GapEnd(is_lost=True),  # a slot of another program is not dropped for a new one
    },
    log_in_use="DATABASE_SLOT_IN_USE",
    table_gaps=frozenset({"DATABASE_PARTITION_TRUNCATED"}),
    retryable=frozenset(
        {
            "DATABASE_SLOT_IN_USE",
            "DATABASE_POSITION_BUSY",
            "DATABASE_TRANSACTIONS_OPEN",
            "DATABASE_COMMIT_NOT_VISIBLE",
        }
    ),
)
