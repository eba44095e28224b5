"""Any two schemas have one common schema, in whatever order they are merged, and the change to it is a widening."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from framework.schema.change import SchemaChange, schema_change
from framework.schema.data_types import first_conflict, merge_schemas, plain_schema
from framework.schema.lattice import AUTO_CDC, FILES, GROWN_TABLE, SAME_TYPES, Widening

FLAT: tuple[DataType, ...] = (
    ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(5, 2), DecimalType(12, 2),
    DecimalType(38, 30), DateType(), TimestampType(), TimestampNTZType(), StringType(), NullType(),
)  # fmt: skip
PARTS = {"same types": SAME_TYPES, "grown table": GROWN_TABLE, "files": FILES, "AUTO CDC": AUTO_CDC}


def structs(kinds: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    """Structs of up to three fields, whose names others have too."""
    return st.dictionaries(st.sampled_from("abcd"), kinds, min_size=1, max_size=3).map(
        lambda fields: StructType([StructField(name, kind) for name, kind in fields.items()])
    )


TYPES = st.recursive(
    st.sampled_from(FLAT),
    lambda kinds: structs(kinds) | kinds.map(ArrayType) | kinds.map(lambda kind: MapType(StringType(), kind)),
    max_leaves=4,
)


def shape(schema: StructType | None) -> object:
    """A schema without the order of its fields; None for None."""
    return None if schema is None else _sorted(schema)


def _sorted(kind: DataType) -> object:
    if isinstance(kind, StructType):
        return {field.name: _sorted(field.dataType) for field in kind.fields}
    if isinstance(kind, ArrayType):
        return [_sorted(kind.elementType)]
    if isinstance(kind, MapType):
        return (_sorted(kind.keyType), _sorted(kind.valueType))
    return kind.simpleString()


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@given(schemas=st.tuples(structs(TYPES), structs(TYPES), structs(TYPES)))
def test_schemas_have_one_common_schema(part: Widening, schemas: tuple[StructType, StructType, StructType]) -> None:
    """Whatever is merged first; a schema merged with itself is the same; what has no common one has a conflict."""
    one, other, third = schemas
    assert shape(merge_schemas(one, one, part)) == shape(one)
    merged, after = merge_schemas(one, other, part), merge_schemas(other, third, part)
    assert (merged is None) == (first_conflict(one, other, part) is not None)
    first = None if merged is None else merge_schemas(merged, third, part)
    last = None if after is None else merge_schemas(one, after, part)
    if not part.kept:  # a known FLOAT stays one, so it counts which schema is the known one
        assert shape(merged) == shape(merge_schemas(other, one, part))
        assert first is None or last is None or shape(first) == shape(last)


@given(schemas=st.tuples(structs(TYPES), structs(TYPES)))
def test_the_change_to_a_common_schema_is_a_widening(schemas: tuple[StructType, StructType]) -> None:
    """Only a column of NULL gets another type; nothing is dropped, and after the change nothing is left to change."""
    one, other = map(plain_schema, schemas)
    for part in (SAME_TYPES, GROWN_TABLE):
        merged = merge_schemas(one, other, part)
        if merged is None:
            continue
        change = schema_change(one.jsonValue(), merged.jsonValue())
        assert (change.dropped, change.renamed) == ((), ())
        assert [each for each in change.retyped if each.before != "void"] == []
        assert part is GROWN_TABLE or not change.widened
        again = merge_schemas(merged, other, part)
        assert again is not None
        assert schema_change(merged.jsonValue(), again.jsonValue()) == SchemaChange()
