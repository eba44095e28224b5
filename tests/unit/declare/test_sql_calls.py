"""SQL statements that change the session are detected by their text."""

from __future__ import annotations

import pytest

from framework.declare.session.sql_calls import mutation_of

CASES = {
    "SET spark.sql.ansi.enabled=true": "SET_RUNTIME_CONF",
    "set\n spark.x = 'a'": "SET_RUNTIME_CONF",
    "SET TIME ZONE 'UTC'": "SET_RUNTIME_CONF",
    "SET VAR x = 1": "SET_RUNTIME_CONF",
    "RESET": "SET_RUNTIME_CONF",
    "RESET spark.x;": "SET_RUNTIME_CONF",
    "SET CATALOG other": "SET_CURRENT_CATALOG",
    "USE CATALOG other": "SET_CURRENT_CATALOG",
    "USE sales": "SET_CURRENT_DATABASE",
    "/* first\n*/ -- second\nUSE SCHEMA sales": "SET_CURRENT_DATABASE",
    "CREATE TEMP VIEW v AS SELECT 1": "CREATE_TEMP_VIEW",
    "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1": "CREATE_OR_REPLACE_TEMP_VIEW",
    "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1": "CREATE_GLOBAL_TEMP_VIEW",
    "CREATE OR REPLACE GLOBAL TEMP VIEW v AS SELECT 1": "CREATE_OR_REPLACE_GLOBAL_TEMP_VIEW",
    "CREATE TEMPORARY FUNCTION f AS 'x'": "REGISTER_UDF",
    # What shows, reads or only looks like it.
    "SET": None,
    "SET -v": None,
    "SET spark.x": None,
    "SELECT 1 AS `USE`": None,
    "SELECT a = 1 FROM t": None,
    "used": None,
    "SHOW TABLES": None,
    "-- USE sales": None,
    "": None,
}


@pytest.mark.parametrize("text", CASES)
def test_a_statement_that_changes_the_session_is_known_by_its_beginning(text: str) -> None:
    """Case, white space and comments don't matter."""
    assert mutation_of(text) == CASES[text]
