"""What a refused login says names the parameters and rules of its own database."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import psycopg2
import pymysql
import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql import faults as mysql
from framework.sources.databases.postgres import faults as postgres
from framework.sources.databases.schemes import _installed, find_dialect
from framework.sources.databases.sqlserver import faults as sqlserver


def _postgres(text: str) -> SourceError:
    connection = Connection(name="a", uri="postgresql://joe@db/shop")
    return postgres.named_error(psycopg2.OperationalError(text), connection, table=None, connecting=True)


def _mysql(number: int) -> SourceError:
    return mysql.named_error(pymysql.OperationalError(number, "no"), Connection(name="a", uri="mysql://joe@db/shop"))


def _sqlserver(text: str) -> SourceError:
    connection = Connection(name="a", uri="sqlserver://joe@db/shop")
    return sqlserver.named_error(text, connection, table=None, connecting=True)


@pytest.mark.parametrize(
    ("error", "parameter"),
    [
        (_postgres("certificate verify failed"), "`sslmode` and `sslrootcert`"),
        (_mysql(2026), "`ssl-mode` and `ssl-ca`"),
        (_sqlserver("[Microsoft]SSL Provider: certificate verify failed"), "`trustServerCertificate`"),
    ],
)
def test_a_failure_of_tls_names_the_parameters_of_the_database(error: SourceError, parameter: str) -> None:
    """The URL of another database has other ones."""
    assert error.condition == "DATABASE_TLS_FAILED"
    assert parameter in error.remedy


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        (_postgres("FATAL: password authentication failed"), "pg_hba.conf"),
        (_mysql(1045), "`SELECT user, host FROM mysql.user`"),
        (_sqlserver("[Microsoft][SQL Server]Login failed for user 'joe'."), "mixed mode"),
    ],
)
def test_a_refused_login_names_the_rules_of_the_database(error: SourceError, rule: str) -> None:
    """Only PostgreSQL has a pg_hba.conf."""
    assert error.condition == "DATABASE_LOGIN_REFUSED"
    assert rule in error.remedy
    assert ("pg_hba" in error.remedy) == (rule == "pg_hba.conf")


def test_entry_points_are_read_once_and_for_unknown_schemes_only() -> None:
    """They are read from the files of all installed packages, which takes 40 ms."""
    _installed.cache_clear()
    for scheme in ("postgresql", "mysql", "mariadb", "sqlserver"):
        assert isinstance(find_dialect(scheme), EntryPoint)
    assert _installed.cache_info().misses == 0
    assert (find_dialect("ledger") is None, find_dialect("nothing"), find_dialect("nothing")) == (False, None, None)
    assert _installed.cache_info().misses == 1
