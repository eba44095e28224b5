"""Servers of MariaDB and MySQL, shared by the tests of this process; those that can't be had here are skipped.

A test with the fixture `mysql_server` runs on each of them, one with `mariadb` on the installed MariaDB alone. What a
test changes at the server itself, such as its log, needs a server of its own: `own_server`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache

import pytest

from framework.foundation.errors import OperationError
from tests.support.mysql_judge import Judge, running_judge
from tests.support.mysql_programs import KNOWN, MARIADB, MYSQL, Programs, ServerMissingError, programs_of
from tests.support.mysql_servers import MysqlServer, new_database

_GTIDS = {MYSQL: {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}}


@cache
def _programs(name: str) -> Programs | str:
    try:
        return programs_of(name)
    except ServerMissingError as error:
        return str(error)


def _found(name: str) -> Programs:
    found = _programs(name)
    if isinstance(found, str):
        pytest.skip(f"{name}: {found}")
    return found


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Callable[[str], MysqlServer]]:
    """Start a server by its name when it is first asked for; MySQL's has GTIDs."""
    with ExitStack() as stack:
        started: dict[str, MysqlServer] = {}

        def start(name: str) -> MysqlServer:
            programs = _found(name)
            if name not in started:
                started[name] = stack.enter_context(MysqlServer(programs, _GTIDS.get(name)))
            return started[name]

        yield start


@pytest.fixture(params=KNOWN)
def mysql_server(request: pytest.FixtureRequest, shared_server: Callable[[str], MysqlServer]) -> MysqlServer:
    """Each server in turn."""
    return shared_server(request.param)


@pytest.fixture
def mariadb(shared_server: Callable[[str], MysqlServer]) -> MysqlServer:
    """The installed MariaDB."""
    return shared_server(MARIADB)


@pytest.fixture
def mysql(shared_server: Callable[[str], MysqlServer]) -> MysqlServer:
    """MySQL, with GTIDs."""
    return shared_server(MYSQL)


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """An independent reader of the files of the log, shared by the tests of this process."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(running_judge(tmp_path_factory.mktemp("judge")))
        except OperationError as error:
            pytest.skip(f"Debezium's library can't be fetched: {error}")
        yield found


@pytest.fixture
def own_server() -> Iterator[Callable[..., MysqlServer]]:
    """Start a server of the test's own, by its name and with settings."""
    with ExitStack() as stack:

        def start(
            name: str, settings: Mapping[str, str] | None = None, *, server_id: int = 1, port: int = 0
        ) -> MysqlServer:
            return stack.enter_context(MysqlServer(_found(name), settings, server_id=server_id, port=port))

        yield start


@pytest.fixture
def database(mysql_server: MysqlServer) -> Iterator[str]:
    """The URI of an empty database of the test, on each server."""
    with new_database(mysql_server) as uri:
        yield uri
