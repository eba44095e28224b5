"""Findings about a server, a user and tables, each with the statement that mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from framework.foundation.errors import SourceError
from framework.sources.databases.findings import PreflightFinding, Severity
from framework.sources.databases.mysql.faults import account_sql, table_sql
from framework.sources.databases.mysql.retention import RETENTION, retention_seconds
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.tables.catalog import read_tables
from framework.sources.databases.tables import SourceTable, TableName

_HOUR = 3600
_SHORTEST_HOURS = 48
_DAY_SECONDS = 86400
_LOGS_CASCADES = (9, 6, 0)
"""The version of MySQL that logs the rows that a foreign key changes."""
_SETTINGS = {
    "binlog_format": ("ROW", "rows that are changed by statements"),
    "binlog_row_image": ("FULL", "columns that an update does not change"),
    "binlog_row_metadata": ("FULL", "the names of the columns"),
    "binlog_row_value_options": ("", "the whole value of a JSON column"),
}
_VARIABLES = (
    "log_bin", "server_id", "log_replica_updates", "log_slave_updates", "basedir", "version_comment", *RETENTION,
    *_SETTINGS,
)  # fmt: skip
_RIGHTS = {
    "REPLICATION SLAVE": ("reading the log", ("REPLICATION SLAVE",)),
    "REPLICATION CLIENT": ("reading where the log ends", ("REPLICATION CLIENT", "BINLOG MONITOR")),
}
# The catalog shows foreign keys only to users who may change the table.
_FOREIGN_KEY = re.compile(
    r"^ *CONSTRAINT `(?P<key>(?:[^`]|``)+)` FOREIGN KEY \(.*\) REFERENCES (?P<parent>.+?) \(.*\).*"
    r" ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)",
    re.MULTILINE,
)
_UNSEEN = ("DATABASE_TABLE_MISSING", "DATABASE_PERMISSION")
_TABLES = """
SELECT table_schema, table_name, engine FROM information_schema.tables WHERE (table_schema, table_name) IN
"""


@dataclass(frozen=True, slots=True)
class _Facts:
    session: Session
    variables: Mapping[str, str]
    user: str
    grants: str

    @classmethod
    def of(cls, session: Session) -> _Facts:
        user = account_sql(str(session.rows("SELECT CURRENT_USER()")[0][0]))
        grants = "\n".join(str(row[0]) for row in session.rows("SHOW GRANTS"))
        return cls(session, session.variables(_VARIABLES), user, grants)


def check(session: Session, tables: Sequence[TableName]) -> tuple[PreflightFinding, ...]:
    """Return the findings that hinder the ingestion of tables.

    Raises:
        SourceError: the database can't be read.
    """
    server = session.server
    if not server.is_supported:
        finding = PreflightFinding.of(
            "MYSQL_VERSION_TOO_OLD", Severity.ERROR, version=server.name, oldest=server.oldest
        )
        return (finding,)
    facts = _Facts.of(session)
    return (
        *_log_findings(facts),
        *_retention_findings(facts),
        *_right_findings(facts),
        *_table_findings(facts, tables),
    )


def _log_findings(facts: _Facts) -> Iterator[PreflightFinding]:
    found, is_mariadb = facts.variables, facts.session.server.is_mariadb
    if found.get("log_bin") != "ON":
        yield PreflightFinding.of(
            "MYSQL_LOG_OFF",
            Severity.ERROR,
            setting="log_bin",
            found="OFF",
            value="binlog",
            statement="SHOW GLOBAL VARIABLES LIKE 'log_bin'",
        )
        return
    for setting, (wanted, what) in _SETTINGS.items():
        if found.get(setting, wanted).upper() != wanted:
            yield PreflightFinding.of(
                "MYSQL_LOG_SETTING",
                Severity.ERROR,
                setting=setting,
                found=found[setting] or "empty",
                what=what,
                value=wanted or "''",
                parameters="parameters",
                statement=set_statement(setting, f"'{wanted}'", is_mariadb=is_mariadb),
            )
    if found.get("server_id") == "0":
        yield PreflightFinding.of(
            "MYSQL_SERVER_ID_ZERO",
            Severity.ERROR,
            statement=set_statement("server_id", "1", is_mariadb=is_mariadb),
        )
    yield from _filter_findings(facts)
    yield from _replica_findings(facts)


def set_statement(setting: str, value: str, *, is_mariadb: bool) -> str:
    """Return the statement that changes a setting; MariaDB forgets it at a restart, and needs it in its file, too."""
    return f"SET GLOBAL {setting} = {value}" if is_mariadb else f"SET PERSIST {setting} = {value}"


def _filter_findings(facts: _Facts) -> Iterator[PreflightFinding]:
    server = facts.session.server
    try:
        status = facts.session.rows(server.log_status)
    except SourceError:
        return  # the right is missing, which is a finding of its own
    for do, ignore in ((str(row[2] or ""), str(row[3] or "")) for row in status):
        for setting, databases in (("binlog_do_db", do), ("binlog_ignore_db", ignore)):
            if databases:
                yield PreflightFinding.of(
                    "MYSQL_LOG_FILTERED",
                    Severity.ERROR,
                    setting=setting,
                    found=databases,
                    statement=server.log_status,
                )


def _replica_findings(facts: _Facts) -> Iterator[PreflightFinding]:
    setting = "log_slave_updates" if facts.session.server.is_mariadb else "log_replica_updates"
    logs = facts.variables.get(setting) or facts.variables.get("log_slave_updates", "ON")
    if logs != "OFF":
        return
    statement = "SHOW SLAVE STATUS" if facts.session.server.is_mariadb else "SHOW REPLICA STATUS"
    try:
        is_replica = bool(facts.session.rows(statement))
    except SourceError:
        return  # without the right to see it
    if is_replica:
        yield PreflightFinding.of("MYSQL_REPLICA_LOG_OFF", Severity.ERROR, setting=setting, statement=statement)


def _retention_findings(facts: _Facts) -> Iterator[PreflightFinding]:
    seconds, is_mariadb = retention_seconds(facts.variables), facts.session.server.is_mariadb
    if 0 < seconds < _SHORTEST_HOURS * _HOUR:
        setting = (
            "binlog_expire_logs_seconds" if "binlog_expire_logs_seconds" in facts.variables else "expire_logs_days"
        )
        value = str(7 * _DAY_SECONDS) if setting == "binlog_expire_logs_seconds" else "7"
        yield PreflightFinding.of(
            "MYSQL_LOG_KEPT_BRIEFLY",
            Severity.WARNING,
            hours=f"{seconds / _HOUR:g}",
            setting=setting,
            value=value,
            parameters="flags of the instance",
            managed="CALL mysql.rds_set_configuration('binlog retention hours', 168)",
            statement=set_statement(setting, value, is_mariadb=is_mariadb),
        )


def _right_findings(facts: _Facts) -> Iterator[PreflightFinding]:
    globally = [line for line in facts.grants.splitlines() if " ON *.*" in line]
    for right, (what, names) in _RIGHTS.items():
        if not any(re.search(rf"\b{name}\b|\bALL PRIVILEGES\b", line) for line in globally for name in names):
            yield PreflightFinding.of(
                "MYSQL_GRANT_MISSING",
                Severity.ERROR,
                user=facts.user,
                right=right,
                what=what,
                statement=f"GRANT {right} ON *.* TO {facts.user}",
            )


def _table_findings(facts: _Facts, names: Sequence[TableName]) -> Iterator[PreflightFinding]:
    found = read_tables(facts.session, names)
    engines, cascades = _engines(facts.session, names), read_cascades(facts.session, names)
    for name in names:
        table = found[name]
        if isinstance(table, SourceError):
            yield PreflightFinding(
                condition=table.condition, severity=Severity.ERROR, what=table.what, remedy=table.remedy, table=name
            )
            continue
        yield from _key_findings(table)
        engine = engines.get(name, "InnoDB")
        if engine.lower() not in ("innodb", "rocksdb", "ndbcluster"):
            yield PreflightFinding.of(
                "MYSQL_NO_TRANSACTIONS",
                Severity.WARNING,
                table=name,
                engine=engine,
                statement=f"ALTER TABLE {table_sql(name)} ENGINE = InnoDB",
            )
        if name in cascades:
            yield PreflightFinding.of("MYSQL_CASCADES", Severity.ERROR, table=name, **cascades[name])


def _engines(session: Session, names: Sequence[TableName]) -> dict[TableName, str]:
    if not names:
        return {}
    places = ", ".join(["(%s, %s)"] * len(names))
    rows = session.rows(f"{_TABLES}({places})", [text for name in names for text in (name.schema, name.table)])
    return {TableName(schema=schema, table=table): str(engine or "none") for schema, table, engine in rows}


def _key_findings(table: SourceTable) -> Iterator[PreflightFinding]:
    if table.key:
        return
    yield PreflightFinding.of(
        "DATABASE_TABLE_WITHOUT_KEY",
        Severity.ERROR,
        table=table.name,
        statement=f"ALTER TABLE {table_sql(table.name)} ADD COLUMN sluice_key BIGINT AUTO_INCREMENT PRIMARY KEY",
    )


def read_cascades(session: Session, names: Sequence[TableName]) -> dict[TableName, dict[str, str]]:
    """Return the fields of the error of each table whose rows foreign keys change without an entry in the log.

    Raises:
        SourceError: the database can't be read.
    """
    server = session.server
    if not server.is_mariadb and server.version >= _LOGS_CASCADES:
        return {}
    found = {}
    for name in names:
        keys = _cascading_keys(session, name)
        if keys:
            drops = ", ".join(f"DROP FOREIGN KEY `{key}`" for key, _ in keys)
            statement = f"ALTER TABLE {table_sql(name)} {drops}"
            found[name] = {"keys": ", ".join(f"{key} of {parent}" for key, parent in keys), "statement": statement}
    return found


def _cascading_keys(session: Session, name: TableName) -> list[tuple[str, str]]:
    """Return the foreign keys of a table that change its rows, with the tables that they refer to."""
    try:
        definition = str(session.rows(f"SHOW CREATE TABLE {table_sql(name)}", table=name)[0][1])
    except SourceError as error:
        if error.condition not in _UNSEEN:
            raise
        return []
    return [(each["key"], each["parent"].replace("`", "")) for each in _FOREIGN_KEY.finditer(definition)]
