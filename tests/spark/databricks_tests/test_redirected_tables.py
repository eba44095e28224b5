"""The tables of `test_spark`: each form of a statement names the test's own, and nothing else is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework.engine.sessions.session import cloned
from framework.testing.redirected_tables import RedirectedTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENTS = {
    "CREATE OR REPLACE TABLE c.s.t AS SELECT * FROM VALUES (1) AS t(id)": "<c.s>.`t`",
    "INSERT INTO c.s.t VALUES (1), (2)": "<c.s>.`t`",
    "TRUNCATE TABLE `C`.`S`.T": "<c.s>.`t`",
    "MERGE INTO c.s.t USING s.u ON t.id = u.id WHEN MATCHED THEN DELETE": "<c.s>.`t` <c.s>.`u`",
    "UPDATE c.s.t SET a = 1 WHERE c.s.t.b IN (SELECT b FROM d.s.t)": "<c.s>.`t` <c.s>.`t` <d.s>.`t`",
    "SELECT s.t.a, t.a, x.y.z FROM c.s.t, LATERAL (SELECT * FROM c.s.u)": "<c.s>.`t` <c.s>.`t` <c.s>.`u`",
    "WITH q AS (SELECT * FROM c.s.t) SELECT 'c.s.t' FROM q -- c.s.t": "<c.s>.`t`",
    "SELECT * FROM IDENTIFIER('c.s.t') VERSION AS OF 1": "'<c.s>.`t`'",
    "CREATE TABLE c.s.t LIKE d.r.u": "<c.s>.`t` <d.r>.`u`",
    "CREATE VIEW c.s.v AS SELECT * FROM c.s.t": "<c.s>.`v` <c.s>.`t`",
    "DROP TABLE IF EXISTS c.s.t": "<c.s>.`t`",
    "DESCRIBE HISTORY c.s.t": "<c.s>.`t`",
    "ALTER TABLE c.s.t ADD COLUMNS (b INT)": "<c.s>.`t`",
    "SHOW TABLES IN c.s": "<c.s>",
    "USE d.s": "<d.s>",
    "SELECT t.a.b.c FROM t JOIN parquet.`/data/c.s.t` ON global_temp.x = 1": "",
    "SELECT c.s.f(1) FROM global_temp.t": "",
}
"""Statements, and the names that replace others in them."""


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[RedirectedTables]:
    """Tables whose default schema is `c.s`."""
    found = RedirectedTables(cloned(spark), tmp_path, catalog="c", schema="s", output_of=lambda _: None)
    yield found
    found.drop()


def test_each_statement_names_the_tables_of_the_test(tables: RedirectedTables) -> None:
    """The replaced names of each form; texts, columns, aliases, functions, paths and temporary views stay."""
    found = {
        text: " ".join(re.findall(r"'?`redirecting\w+`(?:\.`\w+`)?'?", tables.statement(text))) for text in STATEMENTS
    }

    assert STATEMENTS == {
        text: re.sub(r"`redirecting_\w{8}__(\w)__(\w)`", r"<\1.\2>", names) for text, names in found.items()
    }


def test_two_tests_have_tables_of_their_own(tables: RedirectedTables, spark: SparkSession, tmp_path: Path) -> None:
    """A name is another table in each test, and is not found before the test has created it."""
    other = RedirectedTables(cloned(spark), tmp_path / "other", catalog="c", schema="s", output_of=lambda _: None)

    assert tables.named("c.s.t") != other.named("c.s.t")
    other.drop()
