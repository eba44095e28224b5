"""Conditions of the changes of source databases: slots, positions and the log."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_SNAPSHOT_AGAIN = (
    "Changes are missing, so all tables must be read again: `sluice ingest resync --all --new-slot`. Without "
    "`ingest_database`, drop the slot and the publication, and reset each flow of this source: "
    "`sluice run --reset-checkpoint FLOW`."
)

SLOT_OF_ANOTHER = (
    "It may hold the changes of another database's copy, which would be lost with it: give this ingestion another "
    "`name`, or the source another `slot`. Only if nothing reads it any more, drop it: "
    "SELECT pg_drop_replication_slot('{slot}')."
)
"""What to do about a slot that another program may read."""

CONDITIONS: dict[str, Condition] = {
    "DATABASE_POSITION_INVALID": Condition(
        "A position of the flow's checkpoint cannot be read: {problem}.",
        f"Restore the checkpoint. Or: {_SNAPSHOT_AGAIN}",
    ),
    "DATABASE_LOG_NOT_READABLE": Condition(
        "The server refused to start replication: {cause}",
        "Grant the role REPLICATION (ALTER ROLE … REPLICATION), set wal_level = logical and raise max_wal_senders.",
    ),
    "DATABASE_SLOT_IN_USE": Condition(
        "The replication slot {slot} is in use by the server process {pid}.",
        "Stop the other reader of this slot, or end its server process: SELECT pg_terminate_backend({pid}).",
    ),
    "DATABASE_SLOT_OF_OTHER_STORAGE": Condition(
        "The replication slot {slot} is read by another storage, {other}, which would miss the changes that are read "
        "here.",
        "Use that storage. Or give the ingestion another `name` in the code that uses this one, and another `slot` if "
        "it has that option. Or, if the other storage is not used any more, run at the source: {statement}.",
    ),
    "DATABASE_SLOT_NOT_OURS": Condition(
        "The replication slot {slot} cannot be used: its plugin is {plugin} and its database is {database}.",
        SLOT_OF_ANOTHER,
    ),
    "DATABASE_PUBLICATION_NOT_OURS": Condition(
        "The publication {publication} was not made by Sluice for the replication slot {slot}.",
        "If it was made for this slot alone, run as its owner: `{statement}`. Otherwise use another publication name, "
        "or drop it if nothing needs it: DROP PUBLICATION {publication}.",
    ),
    "DATABASE_POSITION_BUSY": Condition(
        "Another process has made or dropped replication slots of this database for {seconds} seconds ({slot}).",
        "Wait for it, or end the holder of the advisory lock: SELECT pid FROM pg_locks WHERE locktype = 'advisory'.",
    ),
    "DATABASE_TRANSACTIONS_OPEN": Condition(
        "Transactions that were open when the replication slot {slot} was made did not end within {seconds} seconds. "
        "Server processes with open transactions: {pids}.",
        "End them (SELECT pg_terminate_backend(pid); COMMIT PREPARED or ROLLBACK PREPARED with the name of a prepared "
        "transaction, in its database) and start again.",
    ),
    "DATABASE_TRANSACTIONS_OPEN.PREPARED": Condition(
        "Prepared transactions that were open when the replication slot {slot} was made did not end within {seconds} "
        "seconds: {names}.",
        "They end with COMMIT PREPARED or ROLLBACK PREPARED and their name, in their database: `{statement}`. Then "
        "start again.",
    ),
    "DATABASE_COMMIT_NOT_VISIBLE": Condition(
        "A transaction of the log did not become visible within {seconds} seconds.",
        "With synchronous replication, check that the standby is connected. Reading resumes at the same position.",
    ),
    "DATABASE_POSITION_LOST.SLOT_MISSING": Condition(
        "The replication slot {slot}, read up to {lsn}, no longer exists.", _SNAPSHOT_AGAIN
    ),
    "DATABASE_POSITION_LOST.SLOT_REPLACED": Condition(
        "The replication slot {slot}, read up to {lsn}, was replaced: its plugin is {plugin}, its database {database}.",
        "The present one may hold the changes of another database's copy. Give the ingestion another `name`, then read "
        "its tables again: `sluice ingest resync --all`. Only if nothing reads the slot any more, drop it in its "
        "database: SELECT pg_drop_replication_slot('{slot}'). Then: " + _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.SLOT_INVALID": Condition(
        "The replication slot {slot}, read up to {lsn}, is lost: the server {cause}.",
        _SNAPSHOT_AGAIN + " {mend}",
    ),
    "DATABASE_POSITION_LOST.OTHER_SLOT": Condition(
        "Changes were read from the replication slot {slot} and the publication {publication} up to {lsn}, but the "
        "slot {named} and the publication {named_publication} are named now.",
        "Name the first ones again: nothing is lost. Or: " + _SNAPSHOT_AGAIN + " Then drop the slot {slot}, for which "
        "its server keeps the log: SELECT pg_drop_replication_slot('{slot}').",
    ),
    "DATABASE_POSITION_LOST.SLOT_AHEAD": Condition(
        "The replication slot {slot} was advanced to {confirmed} by another reader, but only changes up to {lsn} were "
        "read.",
        _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.PUBLICATION": Condition(
        "The publication {publication} of the replication slot {slot} was dropped, or did not send all operations.",
        _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.PARTITION_ROOT": Condition(
        "The publication {publication} of the replication slot {slot} sends changes under the names of partitions.",
        "Run as its owner: `ALTER PUBLICATION {publication} SET (publish_via_partition_root = true)`. Nothing is lost.",
    ),
    "DATABASE_POSITION_LOST.TWO_PHASE": Condition(
        "The replication slot {slot} sends prepared transactions before they are committed (two_phase).",
        'With PostgreSQL 18 or newer, run on a replication connection (psql "dbname=… replication=database"): '
        "`ALTER_REPLICATION_SLOT {slot} (TWO_PHASE false)`. Nothing is lost then. Or: " + _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.SOURCE": Condition(
        "The source is another one than before: {kind} was {before} and is {now} (slot {slot}, read up to {lsn}).",
        "Connect to the source of before. If the other one replaces it: " + _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.LOG_REMOVED": Condition(
        "The database has removed changes after the position {lsn}, up to which they were read (slot {slot}).",
        _SNAPSHOT_AGAIN + " Let the database keep its log for longer, or update more often.",
    ),
    "DATABASE_POSITION_LOST.LOG_RESET": Condition(
        "The log ends at {end}, before the position {lsn} that was read (slot {slot}): the source was restored to an "
        "older state.",
        _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.LOG_REPLACED": Condition(
        "The log up to the position {lsn} has other transactions than those that were read (slot {slot}): the source "
        "was restored to an older state, and has gone on since.",
        _SNAPSHOT_AGAIN,
    ),
    "POSTGRES_LOG_MESSAGE_UNKNOWN": Condition(
        "The log of PostgreSQL contains an unexpected message: {kind}.",
        "Report it with the version of the server.",
    ),
    "POSTGRES_LOG_OUT_OF_ORDER": Condition(
        "The log of PostgreSQL was read out of order: {problem}.",
        "Report it with the version of the server.",
    ),
}
