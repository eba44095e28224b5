"""Time, chance, the environment and the terminal are reached through their ports only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support.sources import Source, sources

# The forbidden name, its replacement, and the exempt files.
PORTS = {
    "time": ("framework.foundation.clock", {"framework/foundation/clock.py"}),
    "random": (
        "a seed that the caller gives",
        {"framework/run/update/retries.py", "framework/sandbox/expectations/any_order.py"},
    ),
    "os.environ": (
        "an argument that the edge fills in",
        {
            "framework/foundation/failpoints.py",  # a test kills another process at a place it names
            "framework/declare/workspace/secrets.py",  # SLUICE_SECRET_<SCOPE>_<KEY>, and variables that entries name
            "framework/native/runtime.py",  # DATABRICKS_RUNTIME_VERSION
            "framework/sources/databases/options.py",  # SLUICE_CONNECTION_<NAME>; secrets to hide
            "framework/session/class_archive.py",  # SLUICE_CLASS_ARCHIVE
            "framework/session/jvm_process.py",  # what the JVM inherits
            "framework/session/jars.py",  # XDG_CACHE_HOME, and what the resolver inherits
            "framework/session/java.py",  # JAVA_HOME
            "framework/session/launching.py",  # SPARK_HOME
            "framework/session/keeper_client/client.py",  # SLUICE_SESSION
            "framework/session/keeper_client/identity.py",  # what a JVM and its Python workers inherit
            "framework/session/keeper/process.py",  # PYSPARK_PYTHON
            "framework/session/keeper_client/protocol.py",  # XDG_RUNTIME_DIR
            "framework/session/spark_session.py",  # PYSPARK_* as spark-submit and Databricks set them
        },
    ),
    "print": ("an observer of events; the command line prints", set()),
}
_OF_OS = ("environ", "getenv", "putenv")
_EDGES = ("framework/cli/", "framework/testing/")


@cache
def uses(source: Source) -> list[tuple[str, int]]:
    """Each use of a port's subject in the file, with its line."""
    return [*_uses(source)]


def _uses(source: Source) -> Iterator[tuple[str, int]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name in ("time", "random"))
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "random"):
            yield node.module, node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in _OF_OS and ast.unparse(node.value) == "os":
            yield "os.environ", node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield "print", node.lineno


@pytest.mark.parametrize("subject", sorted(PORTS))
def test_only_the_files_at_the_edge_reach_past_a_port(subject: str) -> None:
    """Code that has no business with the world gets time, chance, variables and output from its caller."""
    instead, allowed = PORTS[subject]
    found = [
        f"{source.path}:{line} uses {subject}; use {instead}"
        for source in sources("framework")
        if source.path not in allowed and not source.path.startswith(_EDGES)
        for name, line in uses(source)
        if name == subject
    ]
    assert found == []


def test_the_list_of_edges_holds_no_file_that_needs_it_no_more() -> None:
    """A file must be removed from the list when it uses the port."""
    used = {(source.path, name) for source in sources("framework") for name, _ in uses(source)}
    idle = [(path, subject) for subject, (_, files) in PORTS.items() for path in files if (path, subject) not in used]
    assert idle == []


def test_texts_of_commands_are_printed_by_their_port() -> None:
    """`say` and `Output` of `cli/output.py` escape control characters and hide secrets; `click.echo` does neither."""
    allowed = {
        "framework/cli/output.py",
        "framework/cli/progress.py",  # its lines are escaped, and are no styled text
        "framework/cli/main.py",  # before and after a command, whose output takes time to import
    }
    found = [
        f"{source.path}:{node.lineno}"
        for source in sources("framework")
        if source.path not in allowed
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"click.echo", "click.secho"}
    ]
    assert found == []
