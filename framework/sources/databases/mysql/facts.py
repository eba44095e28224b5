"""Explanations and remedies of the errors of MySQL and MariaDB, for the status of ingestions and for the doctor."""

from __future__ import annotations

from framework.sources.databases.facts import DialectFacts, Remedy, SourceDiagnosis

_LOST = "DATABASE_POSITION_LOST"

FACTS = DialectFacts(
    connection_example="mysql://user:password@host:port/database",
    drivers=("pymysql", "connectorx"),
    install="pip install 'sluice-spark[mysql]'",
    tls_parameters="`ssl-mode` and `ssl-ca`",
    login_rules="that the server knows the user from this machine (`SELECT user, host FROM mysql.user`)",
    diagnoses=(
        SourceDiagnosis(
            name="MYSQL_LOG_INCOMPLETE",
            meaning="The settings of the server leave something out of its log that a copy needs.",
            conditions=(
                "MYSQL_VERSION_TOO_OLD",
                "MYSQL_LOG_OFF",
                "MYSQL_LOG_SETTING",
                "MYSQL_LOG_FILTERED",
                "MYSQL_LOG_KEPT_BRIEFLY",
                "MYSQL_REPLICA_LOG_OFF",
                "MYSQL_SERVER_ID_ZERO",
                "MYSQL_NO_ORDER_OF_COMMITS",
                "MYSQL_LOG_UNREADABLE",
            ),
            remedies=(Remedy.FOLLOW, Remedy.RUN_AGAIN),
        ),
        SourceDiagnosis(
            name="MYSQL_SERVER_REPLACED",
            meaning="Another server, with other transactions, has taken the place of the one that was read.",
            conditions=(f"{_LOST}.GTIDS_MISSING", f"{_LOST}.GTIDS_UNREAD"),
            remedies=(Remedy.FOLLOW, Remedy.NEW_POSITION),
        ),
        SourceDiagnosis(
            name="MYSQL_SERVER_TAKEN_OVER",
            meaning="Another server has taken the place of the one on which tables were read, in the same update.",
            conditions=("MYSQL_SERVER_TAKEN_OVER",),
            remedies=(Remedy.RUN_AGAIN,),
        ),
    ),
    explained={
        "SOURCE_TABLE_CHANGED": ("MYSQL_NO_TRANSACTIONS", "MYSQL_CASCADES"),
        "PERMISSION_MISSING": ("MYSQL_GRANT_MISSING",),
        "CONNECTION_LOST": ("MYSQL_COMMITS_PENDING",),
        "ROW_NOT_USABLE": ("MYSQL_CHANGE_UNREADABLE",),
    },
    retryable=frozenset({"MYSQL_COMMITS_PENDING"}),
    has_logs_of_servers=True,
)
