"""The change from one schema to another: what is added, widened, renamed, dropped, or gets another type."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from framework.schema.change import ColumnChange, SchemaChange, schema_change, type_change


def struct(**fields: Any) -> dict[str, Any]:
    """A struct in the JSON of Spark's types."""
    return {"type": "struct", "fields": [{"name": name, "type": kind, "metadata": {}} for name, kind in fields.items()]}


def numbered(**fields: tuple[int, Any]) -> dict[str, Any]:
    """A struct whose columns have numbers."""
    listed = [{"name": name, "type": kind, "metadata": {"id": number}} for name, (number, kind) in fields.items()]
    return {"type": "struct", "fields": listed}


def array(element: Any) -> dict[str, Any]:
    """An array."""
    return {"type": "array", "elementType": element}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    """A map."""
    return {"type": "map", "keyType": key, "valueType": value}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (struct(id="long"), struct(ID="long"), ""),
        (struct(id="long"), struct(id="long", note="string"), "adds note string"),
        (struct(id="long", a="integer"), struct(a="long", b="short"),
         "adds b smallint; widens a from int to bigint; drops id"),
        (struct(a="float"), struct(a="double"), "changes a from float to double"),
        (struct(a="long"), struct(a="integer"), "changes a from bigint to int"),
        (struct(a="string"), struct(a="varchar(5)"), ""),
        (struct(a=struct(x="date")), struct(a=struct(x="timestamp_ntz", y=array("byte"))),
         "adds a.y array<tinyint>; widens a.x from date to timestamp_ntz"),
        (struct(a=array(struct(x="integer"))), struct(a=array(struct(X="decimal(12,2)", z=mapping("string", "long")))),
         "adds a.element.z map<string,bigint>; widens a.element.x from int to decimal(12,2)"),
        (struct(m=mapping(struct(k="long", l="long"), "integer")), struct(m=mapping(struct(k="long"), "long")),
         "widens m.value from int to bigint; drops m.key.l"),
        (struct(a="string"), struct(a=struct(x="long")), "changes a from string to struct<x:bigint>"),
        (struct(), struct(a=struct(x=struct(y="long"))), "adds a struct<x:struct<y:bigint>>"),
    ],
)  # fmt: skip
def test_each_difference_has_its_words(before: dict[str, Any], after: dict[str, Any], words: str) -> None:
    """At any depth, by names in any case; only the outermost of what is new or gone is named."""
    change = schema_change(before, after)
    assert change.words() == words
    assert bool(change) is bool(words)
    assert schema_change(after, after) == SchemaChange()


def test_a_column_with_a_number_keeps_it_under_another_name() -> None:
    """Another number under the same name is another column."""
    before = numbered(id=(1, "long"), old=(2, "string"), n=(3, "integer"))
    change = schema_change(before, numbered(id=(1, "long"), new=(2, "string"), n=(4, "integer")), number="id")
    assert change == SchemaChange(
        renamed=(ColumnChange(path=("new",), before="string", after="string", was=("old",)),),
        dropped=(ColumnChange(path=("n",), before="int"),),
        added=(ColumnChange(path=("n",), after="int"),),
    )
    assert change.words() == "adds n int; renames old to new; drops n"


@pytest.mark.parametrize(
    ("change", "is_additive", "is_widening"),
    [
        (schema_change(struct(), struct()), True, True),
        (schema_change(struct(), struct(a="long")), True, True),
        (schema_change(struct(a="integer"), struct(a="long", b="long")), False, True),
        (schema_change(struct(a="long"), struct(a="integer")), False, False),
        (schema_change(struct(a="long"), struct()), False, False),
        (schema_change(numbered(a=(1, "long")), numbered(b=(1, "long")), number="id"), False, False),
        (type_change("integer", "long"), False, True),
        (type_change("long", "long"), True, True),
    ],
)
def test_a_change_is_additive_or_widening(change: SchemaChange, *, is_additive: bool, is_widening: bool) -> None:
    """Additive: earlier columns stay as they are. Widening: they stay, or get a wider type."""
    assert (change.is_additive, change.is_widening) == (is_additive, is_widening)


def test_parts_of_a_change_are_changes() -> None:
    """What a table gains, what is left without a column, and what is done already."""
    before, after = struct(a="integer", b="long", h=struct(x="long")), struct(a="long", c="long", h=struct(y="long"))
    change = schema_change(before, after)
    assert change.gained(widens=True).words() == "adds h.y bigint, c bigint; widens a from int to bigint"
    assert change.gained(widens=False).words() == "adds h.y bigint, c bigint"
    assert change.without("h").words() == "adds c bigint; widens a from int to bigint; drops b"
    assert schema_change(struct(a="integer", c="long"), struct(a="long", c="long")).is_part_of(change)
    assert not schema_change(struct(a="short"), struct(a="long")).is_part_of(change)


def test_collations_are_part_of_a_type() -> None:
    """Spark has them in the metadata of a field; two of one type are no difference."""
    schemas = [StructType([StructField("a", StringType(each))]).jsonValue() for each in ("UTF8_LCASE", "UTF8_BINARY")]
    assert schema_change(schemas[0], schemas[1]).words() == "changes a from string collate UTF8_LCASE to string"
    assert schema_change(schemas[0], schemas[0]) == SchemaChange()
