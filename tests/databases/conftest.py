"""A PostgreSQL server for the tests of databases, and a database of its own for each test.

`SLUICE_POSTGRES` is the version of the server, one of `OTHER_VERSIONS`, in place of the wheel's.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from tests.support.postgres_log import query
from tests.support.postgres_versions import programs_of

# A database is 300 files: to make and drop one on a disk takes two to four times as much CPU time.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - with a folder of its own
# A container may have 64 MB of it.
_LEAST_BYTES = 8 << 30


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A server with logical replication, shared by the tests of this process."""
    version = os.environ.get("SLUICE_POSTGRES")
    with ExitStack() as stack:
        programs = stack.enter_context(programs_of(int(version))) if version else None
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="sluice-postgres-", dir=_memory())))
        folder.chmod(0o755)  # PostgreSQL does not run as root
        yield stack.enter_context(PostgresServer(programs=programs, folder=folder))


def _memory() -> str | None:
    """The folder for files in memory, if there is room; None for the usual one."""
    if os.access(_SHARED_MEMORY, os.W_OK) and shutil.disk_usage(_SHARED_MEMORY).free >= _LEAST_BYTES:
        return _SHARED_MEMORY
    return None


@contextmanager
def new_database(server: PostgresServer) -> Iterator[str]:
    """Yield the URI of an empty database; its slots and the database are dropped afterwards."""
    name = f"db_{uuid.uuid4().hex[:12]}"
    admin = psycopg2.connect(server.uri())
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield server.uri(name)
        finally:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                [name],
            )
            cursor.execute("SELECT slot_name FROM pg_replication_slots WHERE database = %s", [name])
            for (slot,) in cursor.fetchall():
                cursor.execute(
                    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s", [slot]
                )
                query(server.uri(name), "SELECT pg_drop_replication_slot(%s)", slot)
            cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    admin.close()


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    """The URI of an empty database of the test."""
    with new_database(server) as uri:
        yield uri


@pytest.fixture
def folder(database: str, tmp_path: Path) -> Path:
    """A folder with the connection `bank` to the database of the test."""
    (tmp_path / "connections.yml").write_text(f"bank: {database}\n", "utf-8")
    return tmp_path


@pytest.fixture
def run(database: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Run a statement at the source, and return its rows."""
    return partial(query, database)
