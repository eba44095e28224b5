"""Explanations and remedies of SQL Server's errors, for the status of ingestions and for the doctor."""

from __future__ import annotations

from framework.sources.databases.facts import DialectFacts, GapEnd, Remedy, SourceDiagnosis

_LOST = "DATABASE_POSITION_LOST"

FACTS = DialectFacts(
    connection_example="sqlserver://user:password@host:port/database",
    drivers=("mssql_python",),
    install="pip install 'sluice-spark[sqlserver]'",
    tls_parameters="`encrypt`, `trustServerCertificate` and `hostNameInCertificate`",
    login_rules="that the server accepts this kind of login (parameter `authentication`; passwords need mixed mode)",
    diagnoses=(
        SourceDiagnosis(
            name="SQLSERVER_CAPTURE_LOST",
            meaning="The change tables no longer have the changes after the stored position: change data capture was "
            "disabled. Changes in between are in no log.",
            conditions=(f"{_LOST}.SQLSERVER_DISABLED",),
            remedies=(Remedy.NEW_POSITION, Remedy.FOLLOW),
        ),
        SourceDiagnosis(
            name="SQLSERVER_DRIVER_INCOMPLETE",
            meaning="The driver is installed, but this machine lacks a system library that it needs.",
            conditions=("SQLSERVER_DRIVER_NOT_LOADED",),
            remedies=(Remedy.FOLLOW, Remedy.RUN_AGAIN),
        ),
        SourceDiagnosis(
            name="SQLSERVER_OTHER_WAY",
            meaning="The server has the changes, but the connection names another way to read them.",
            conditions=(f"{_LOST}.SQLSERVER_WAY", "SQLSERVER_PARAMETER_INVALID"),
            remedies=(Remedy.FOLLOW, Remedy.NEW_POSITION),
        ),
    ),
    explained={
        "SOURCE_TABLE_CHANGED": (
            "SQLSERVER_CAPTURE_MISSING",
            "SQLSERVER_TRACKING_MISSING",
            "SQLSERVER_TRACKING_HISTORY",
        ),
        "SOURCE_TABLE_REPLACED": ("SQLSERVER_CAPTURE_GAP", "SQLSERVER_KEY_MOVED"),
        "PERMISSION_MISSING": ("SQLSERVER_CAPTURE_DISABLED", "SQLSERVER_TRACKING_DISABLED"),
        "RESOURCES_EXHAUSTED": ("SQLSERVER_LSN_TOO_LARGE",),
        "CONNECTION_LOST": ("SQLSERVER_CAPTURE_NOT_READY", "SQLSERVER_CAPTURE_EMPTY", "SQLSERVER_CAPTURE_REMOVED"),
    },
    gap_ends={f"{_LOST}.SQLSERVER_WAY": GapEnd()},
    table_gaps=frozenset({"SQLSERVER_CAPTURE_GAP", "SQLSERVER_KEY_MOVED"}),
    retryable=frozenset({"SQLSERVER_CAPTURE_NOT_READY", "SQLSERVER_CAPTURE_EMPTY", "SQLSERVER_CAPTURE_REMOVED"}),
)
