"""What PostgreSQL records of a table between two updates, as the one text that everything else has of it."""

from __future__ import annotations

import json

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.postgres.tables.continuity import Continuity


@pytest.mark.parametrize(
    "known",
    [
        Continuity(),
        Continuity(table=16385, member=16390),
        Continuity(table=16385, partitions=json.dumps({"links": {"7:9": 'public."Größe"'}, "files": {}})),
        Continuity(table=16385, member=1, links=("7:9", "8:10")),
    ],
)
def test_it_is_read_as_it_was_written(known: Continuity) -> None:
    """Equal texts are equal states; an empty text says nothing."""
    read = Continuity.of(known.to_text())
    assert (read.table, read.member, read.links) == (known.table, known.member, known.links)
    assert json.loads(read.partitions or "null") == json.loads(known.partitions or "null")
    assert read.to_text() == known.to_text()
    assert Continuity.of("") == Continuity()


@pytest.mark.parametrize("text", ['{"version": 99, "table": 1, "member": 2}', "{}", "[]", "no JSON", '{"version": 1}'])
def test_another_form_is_a_named_error(text: str) -> None:
    """No table is taken for the one of before because its record can't be read."""
    with pytest.raises(SourceError, match="DATABASE_CONTINUITY_INVALID"):
        Continuity.of(text)
