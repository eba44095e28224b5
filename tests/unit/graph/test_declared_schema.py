"""The way out of a schema that can't be parsed."""

from __future__ import annotations

import pytest

from framework.graph.target_tables.declared_schema import schema_advice

ANYTHING = "Write a DDL string, for example `id BIGINT`."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id LONG, day DATE GENERATED AS CAST(t AS DATE)", "Write `GENERATED ALWAYS AS (expression)`"),
        ("id BIGINT GENERATED AS IDENTITY", "Write `GENERATED ALWAYS AS IDENTITY (START WITH 1"),
        ("id LONG NOT NULL primary key", "`@dp.expect_or_fail`"),
        ("id LONG, CONSTRAINT pk PRIMARY KEY (id)", "`@dp.expect_or_fail`"),
        ("id nosuch", ANYTHING),
        ("id nosuch COMMENT 'the DEFAULT, it\\'s IDENTITY', `primary key` INT", ANYTHING),
    ],
)
def test_a_clause_that_spark_does_not_parse_is_named_with_what_to_do_instead(text: str, words: str) -> None:
    """A word in a comment or in a quoted name is no clause."""
    assert words in schema_advice(text)
