"""Fixtures of all tests: one Spark session per pytest worker, and storage that is deleted with the test."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.engine.files.storage import open_storage
from framework.engine.jvm.java import java_class
from framework.foundation.files.storage import Storage
from framework.foundation.secrets import known_secrets
from tests.support import conditions  # noqa: F401 - tests raise conditions of dialects that they do not read with
from tests.support.settings import COMPILED, INTERPRETED, MANY_JOBS, SELDOM_COMPILED, SHORT_LIVED
from tests.support.worker_session import worker_session

# A test run uses the class archive that `make` built, and starts no build of its own in the background.
os.environ.setdefault("SLUICE_CLASS_ARCHIVE", "use")
# ... and no session that a developer started in this folder.
os.environ["SLUICE_SESSION"] = "off"
# The JVMs that tests start live for a minute: half of their CPU time is that of the second compiler.
os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED)


# The folders by the time that a file of theirs takes. The workers get the files in this order: the last ones are short,
# so that no worker waits for the other's last file. Unlisted folders run first.
_LONGEST_FIRST = (
    "tests/properties", "tests/crashes", "tests/e2e", "tests/conformance", "tests/unit/tidy", "tests/spark",
    "tests/unit", "tests/golden", "framework",
)  # fmt: skip


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let pytest-rerunfailures ask for each test at once: its two small messages wait 44 ms for an acknowledgement."""
    connection: socket.socket | None = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    gc.disable()


def pytest_collection_finish() -> None:
    """Python's garbage collector looks neither at the 5,000 tests while they are collected nor ever after."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files of all folders, and keep the order of the tests in a file."""
    items.sort(key=_folder_order)


def _folder_order(item: pytest.Item) -> int:
    listed = (place for place, folder in enumerate(_LONGEST_FIRST) if item.nodeid.startswith(f"{folder}/"))
    return next(listed, -1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The worker's session: two cores, Delta, no code generation, files in temporary folders only."""
    folder = tmp_path_factory.getbasetemp().parent
    with worker_session(folder, {**SELDOM_COMPILED, **INTERPRETED, **MANY_JOBS}) as session:
        yield session


@pytest.fixture(autouse=True)
def _active_session(request: pytest.FixtureRequest) -> None:
    """Code that takes the active session gets the worker's, not one that an earlier test has left active."""
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        SparkSession._activeSession = session
        java_class("org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)


@pytest.fixture(autouse=True)
def _known_secrets(swap: pytest.MonkeyPatch) -> None:
    """The secrets of a test are not hidden in the texts of the next ones, such as the word `secret`."""
    swap.setattr(known_secrets, "_known", known_secrets.KnownSecrets())


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A local storage in a folder of the test, not created yet."""
    return open_storage(str(tmp_path / "storage"))


@pytest.fixture
def swap(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Replaces attributes of the product for the duration of a test."""
    return monkeypatch


@pytest.fixture
def interpreting(spark: SparkSession) -> SparkSession:
    """A session of the test's own: its settings and temporary views end with the test."""
    return spark.newSession()


@pytest.fixture
def compiling(spark: SparkSession) -> SparkSession:
    """A session with Spark's defaults for code generation and adaptive planning, as users have it."""
    session = spark.newSession()
    for key, value in COMPILED.items():
        session.conf.set(key, value)
    return session
