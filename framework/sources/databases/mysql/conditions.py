"""Conditions that only MySQL and MariaDB raise: what their log lacks, and what the preflight finds."""

from __future__ import annotations

from framework.foundation.conditions.databases import READ_AGAIN, SNAPSHOT_AGAIN
from framework.foundation.conditions.entry import Condition

_MANAGED = "On Amazon RDS, Aurora, Azure and Cloud SQL set {setting} = {value} in the {parameters} of the server."

CONDITIONS: dict[str, Condition] = {
    "DATABASE_PARAMETER_UNKNOWN": Condition(
        "The connection `{connection}` has the unknown parameter `{parameter}`.", "Known parameters: {known}."
    ),
    "DATABASE_PARAMETER_WRONG": Condition(
        "The parameter `{parameter}` of the connection `{connection}` is `{value}`.", "Write one of: {expected}."
    ),
    "MYSQL_VERSION_TOO_OLD": Condition(
        "The server is {version}, whose log does not describe its tables.", "Upgrade it to {oldest} or newer."
    ),
    "MYSQL_LOG_OFF": Condition(
        "The server keeps no binary log ({setting} = {found}).",
        "Write {setting} = {value} below [mysqld] in its configuration, and restart it: `{statement}`. On Amazon RDS "
        "and Aurora, set a backup retention of a day or more, and binlog_format = ROW in the parameter group; on "
        "Azure the log is on; on Cloud SQL, enable point-in-time recovery.",
    ),
    "MYSQL_LOG_SETTING": Condition(
        "{setting} is {found}, so that the log lacks {what}.",
        "Run as an administrator: `{statement}`; what is logged before it is still without. MariaDB forgets it at a "
        "restart: write {setting} = {value} below [mysqld] in its configuration, too. " + _MANAGED,
    ),
    "MYSQL_LOG_FILTERED": Condition(
        "The server leaves databases out of its log ({setting} = {found}).",
        "Remove the setting from its configuration, and restart it: `{statement}`.",
    ),
    "MYSQL_LOG_KEPT_BRIEFLY": Condition(
        "The server removes its log after {hours} hours ({setting}): a pause, or a snapshot, that is longer ends in a "
        "gap, and all tables must be read again.",
        "Let it keep two days or more: `{statement}`. On Amazon RDS and Aurora: `{managed}`. On Azure and "
        "Cloud SQL set {setting} = {value} in the {parameters} of the server.",
    ),
    "MYSQL_REPLICA_LOG_OFF": Condition(
        "The server is a replica that does not log what it replicates ({setting} = OFF).",
        "Write {setting} = ON below [mysqld] in its configuration, and restart it: `{statement}`. Or connect to its "
        "primary.",
    ),
    "MYSQL_SERVER_ID_ZERO": Condition(
        "The server has server_id = 0, and sends its log to nobody.", "Run as an administrator: `{statement}`."
    ),
    "MYSQL_GRANT_MISSING": Condition(
        "The user {user} lacks the right {right}, which {what} needs.", "Run as an administrator: `{statement}`."
    ),
    "MYSQL_NO_TRANSACTIONS": Condition(
        "{table} has the engine {engine}, which has no transactions: a failed statement may leave rows that are "
        "not in the log.",
        "Run as its owner: `{statement}`.",
    ),
    "MYSQL_CASCADES": Condition(
        "{table} has foreign keys that change its rows with those of another table ({keys}); this server does not log "
        "such changes, and the copy would miss them.",
        f"Run as its owner, and let the application delete the rows: `{{statement}}`. {READ_AGAIN}",
    ),
    "MYSQL_NO_ORDER_OF_COMMITS": Condition(
        "The server has no GTIDs, and does not show which transactions are being committed, so that no position of its "
        "log is safe: {cause}.",
        "Turn GTIDs on (gtid_mode = ON, enforce_gtid_consistency = ON), or run as an administrator: `{statement}`.",
    ),
    "MYSQL_COMMITS_PENDING": Condition(
        "Transactions that are in the log did not become visible within {seconds} seconds: {which}.",
        "They wait for a replica (semi-synchronous replication), for a lock or for a disk: see SHOW PROCESSLIST. Then "
        "start again.",
    ),
    "MYSQL_LOG_UNREADABLE": Condition(
        "The server refuses to send its log: {cause}.",
        "See the log of the server.",
    ),
    "DATABASE_POSITION_LOST.GTIDS_MISSING": Condition(
        "The server {now} has taken the place of {before}, but lacks transactions that were read ({reader}, up to "
        "{position}): {missing}.",
        "Connect to a server that has them. Or: " + SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.GTIDS_UNREAD": Condition(
        "The server {now} has taken the place of {before}, and has changed copied tables by the transaction {unread}, "
        "which was not read, before later ones that were ({reader}, up to {position}).",
        "Connect to a server without it. Or: " + SNAPSHOT_AGAIN,
    ),
    "MYSQL_SERVER_TAKEN_OVER": Condition(
        "The server {now} has taken the place of {before}, on which tables were read whose changes are not read up to "
        "there ({reader}). It may lack some of their rows.",
        "Run the pipeline again: it reads these tables again.",
    ),
    "MYSQL_CHANGE_UNREADABLE": Condition(
        "A change of the table {table} in the log can't be read: {problem}.",
        f"Set the server as `sluice ingest preflight` tells. {READ_AGAIN}",
    ),
}
