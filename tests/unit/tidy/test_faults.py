"""Errors come from one catalogue, and no exception is caught or ignored without a reason."""

from __future__ import annotations

import ast
import re

from framework.foundation.conditions.recovery import BREAKS
from framework.sources.databases.postgres.conditions import CONDITIONS
from tests.support.conditions import EVERY_CONDITION
from tests.support.sources import Source, sources

# The outermost loops: they record what they catch, and end in a named state.
_OUTERMOST = {
    "framework/cli/command.py",  # the command: what nobody foresaw becomes a plea to report it
    "framework/cli/signals.py",  # the update's thread: raised again in the command's thread
    "framework/declare/modules/loader.py",  # so is what a module raises
    "framework/declare/modules/pipeline_imports.py",  # a module is the user's code, and may raise anything
    "framework/declare/modules/pickled_modules.py",  # so may a value of a module that is pickled
    "framework/foundation/wording.py",  # an exception of the user's may fail to say what it is
    "framework/graph/queries/calls.py",  # so is a query function
    "framework/record/log.py",  # so are hooks and observers, which must not stop the update
    "framework/run/update/fault_classification.py",  # a step's failure is its flows', and the others go on
    "framework/run/flows/streaming_query.py",  # a batch function's exception is raised again where its query ends
    "framework/running_update.py",  # raised again in the thread that waits
    "framework/engine/streams/stream_source.py",  # raised again where its query ends; Spark keeps the text only
    "framework/sources/databases/mysql/log/binlog_connection.py",  # raised again, after the connection is closed
    "framework/sources/databases/mysql/changes_source.py",  # raised again, after the files are removed
    "framework/sources/databases/mysql/chunks/row_readers.py",  # a panic of connectorx, which is no Exception
    "framework/sources/databases/postgres/log/log_reader.py",  # raised again, after the connections are closed
    "framework/sources/databases/postgres/log/stream.py",  # raised again, after the connection is closed
    "framework/sources/staging/files.py",  # raised again, after the file is removed
    "framework/sources/databases/postgres/log/position.py",  # raised again, after the transaction is rolled back
    "framework/run/update/update.py",  # the update ends in a recorded state, whatever ended it
    "framework/server/server.py",  # one storage that can't be read leaves the others as they are
    "framework/run/update/flow_attempts.py",  # a flow's failure is the flow's, and it may be tried again
}


def blind_excepts(source: Source) -> list[int]:
    """The lines of handlers that catch everything."""
    return [
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or {"Exception", "BaseException"} & {name.id for name in _names(node.type)})
    ]


def _names(types: ast.expr) -> list[ast.Name]:
    """Return the names in a handler's `except`: one class, or a tuple of classes."""
    return [node for node in ast.walk(types) if isinstance(node, ast.Name)]


def test_only_an_outermost_loop_catches_everything() -> None:
    """Only the listed files contain `except Exception`."""
    found = {source.path for source in sources("framework") if blind_excepts(source)}
    assert found == _OUTERMOST


def test_every_condition_of_the_catalogue_is_met_by_code() -> None:
    """A text that no code raises is dead, and a condition outside the catalogue could not be raised at all."""
    code = "\n".join(s.text for s in sources("framework") if "/conditions" not in s.path)
    named = set(re.findall(r'"([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)"', code))
    named |= set(BREAKS)  # Spark and Delta raise these; `fault_classification` recognizes them
    # The name of a subcondition may be computed: `f"SESSION_MUTATION….{method}"`.
    families = set(re.findall(r'f"([A-Z][A-Z0-9_]+)\.\{', code))
    assert sorted(name for name in set(EVERY_CONDITION) - named if name.partition(".")[0] not in families) == []


def test_a_condition_of_one_kind_of_database_is_named_in_its_folder_only() -> None:
    """What it means and how it ends is data of the dialect; a second engine would have none of it."""
    folder = "framework/sources/databases/postgres/"
    found = [
        (source.path, name)
        for source in sources("framework")
        if not source.path.startswith(folder)
        for name in CONDITIONS
        if f'"{name}"' in source.text
    ]
    assert found == []


def test_no_test_checks_calls_in_place_of_behaviour() -> None:
    """Tests use fakes with behaviour; a mock would pass for any code."""
    words = ("Magic" + "Mock", "unittest" + ".mock", "monkeypatch" + ".setattr(", "mocker" + ".")
    found = [(source.path, word) for source in sources("tests") for word in words if word in source.text]
    assert found == []


def test_every_rule_waved_through_has_its_reason_beside_it() -> None:
    """`noqa` and `type: ignore` name their rule; `noqa` also has a reason."""
    bare = re.compile(r"# noqa(?!: [A-Z]+\d+(?:, [A-Z]+\d+)* - \S)|# type: ignore(?!\[)")
    found = [
        f"{source.path}:{number}"
        for folder in ("framework", "tests")
        for source in sources(folder)
        for number, line in enumerate(source.text.splitlines(), start=1)
        if bare.search(line) and "re.compile" not in line
    ]
    assert found == []
