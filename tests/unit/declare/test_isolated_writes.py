"""Commands and calls of a sandbox's code that Spark can't keep in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from framework.declare.inputs import SourceRead, StagedRead
from framework.declare.workspace.isolated_writes import isolated_command, temporary_view
from framework.declare.workspace.path_map import path_map
from framework.declare.workspace.surroundings import Surroundings, surrounded_by
from framework.foundation.errors import UserError

SESSION: Any = None


class Given:
    """Inputs of a sandbox: reads are in /given, writes in /written, and the table `open` is let through."""

    def staged(self, spark: Any, read: SourceRead) -> StagedRead:
        """A place for each read."""
        del spark
        return StagedRead(path=f"/given{read.path}")

    def written(self, path: str) -> str:
        """A place for each write."""
        return f"/written{path}"

    def lets_through(self, name: str) -> bool:
        """Whether it is `open`."""
        return name == "main.open"

    def table(self, spark: Any, name: Any) -> str:
        """A place for each table."""
        del spark
        return f"/tables/{name}"


@pytest.fixture
def in_sandbox() -> Iterator[None]:
    """Run a test as code of a sandbox."""
    around = Surroundings(
        spark=SESSION, root=None, root_path=None, paths=path_map(), secrets=SESSION, parameters=(),
        run_notebook=SESSION, inputs=Given(),
    )  # fmt: skip
    with surrounded_by(around):
        yield


@pytest.mark.usefixtures("in_sandbox")
@pytest.mark.parametrize(
    ("command", "isolated"),
    [
        ("DELETE FROM delta.`/r` WHERE id = 1", "DELETE FROM delta.`/given/r` WHERE id = 1"),
        ("/* x */ vacuum\n delta.`/r`", "/* x */ vacuum\n delta.`/given/r`"),
        ("INSERT INTO delta . `/r` TABLE json.`/j`", "INSERT INTO delta . `/given/r` TABLE json.`/given/j`"),
        ("MERGE INTO delta.`/r` t USING v s ON t.`a/b` = 1", "MERGE INTO delta.`/given/r` t USING v s ON t.`a/b` = 1"),
        (
            "CREATE OR REPLACE TABLE delta.`/n` AS SELECT * FROM delta.`/r`",
            "CREATE OR REPLACE TABLE delta.`/written/n` AS SELECT * FROM delta.`/given/r`",
        ),
        (
            "INSERT OVERWRITE LOCAL DIRECTORY '/d' USING json SELECT '/e'",
            "INSERT OVERWRITE LOCAL DIRECTORY '/written/d' USING json SELECT '/e'",
        ),
        ("DESCRIBE HISTORY delta.`/r`", "DESCRIBE HISTORY delta.`/given/r`"),
        ("SET spark.sql.shuffle.partitions = 1", "SET spark.sql.shuffle.partitions = 1"),
        ("DROP TABLE IF EXISTS main.open", "DROP TABLE IF EXISTS main.open"),
    ],
)  # fmt: skip
def test_a_command_uses_the_places_of_the_sandbox(command: str, isolated: str) -> None:
    """Each path is replaced; commands of the session and what the test lets through run as they are."""
    assert isolated_command(SESSION, command) == isolated


@pytest.mark.usefixtures("in_sandbox")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("DROP TABLE IF EXISTS main.`s`.t", "main.s.t"),
        ("insert into t select 1", "t"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING v ON true WHEN MATCHED THEN DELETE", "t"),
        ("CREATE TABLE t USING delta LOCATION '/r'", "t"),
        ("CREATE TABLE delta.`/n` (id INT) USING delta LOCATION '/r'", "delta./n"),
        ("CREATE TEMP VIEW v USING json OPTIONS (path '/r')", "CREATE TEMP VIEW"),
        ("VACUUM '/r'", "VACUUM '"),
        ("DELETE FROM main.delta.`/r`", "main.delta./r"),
        ("INSERT OVERWRITE DIRECTORY USING json OPTIONS (path '/r') SELECT 1", "DIRECTORY"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "WITH a AS"),
        ("BEGIN DELETE FROM t; END", "BEGIN DELETE FROM"),
        ("GRANT SELECT ON TABLE t TO u", "GRANT SELECT ON"),
    ],
)  # fmt: skip
def test_other_commands_are_refused_in_a_sandbox(command: str, name: str) -> None:
    """A command that changes a table by name, or an unknown one, is an error that names what to let through."""
    with pytest.raises(UserError) as refused:
        isolated_command(SESSION, command)
    assert (refused.value.condition, refused.value.fields["name"]) == ("TEST_WRITE_NOT_ISOLATED", name)


def test_commands_outside_of_sandboxes_stay_as_they_are() -> None:
    """Without given inputs nothing is replaced or refused."""
    assert isolated_command(SESSION, "DROP TABLE t") == "DROP TABLE t"


def test_a_temporary_view_has_a_name_and_a_query() -> None:
    """The query of a temporary view is found, so that it reads given rows."""
    assert temporary_view("-- x\nCREATE OR REPLACE TEMP VIEW `a b` AS\nSELECT 'x' FROM t") == (
        "a b",
        "SELECT 'x' FROM t",
    )
    assert temporary_view("CREATE VIEW v AS SELECT 1") is None
