"""Columns of files as values: case, hints, new fields, types, and where columns are recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from framework.foundation.errors import UserError
from framework.foundation.files.storage import LocalStorage
from framework.sources.cloud_files.columns.fields import case_variants, new_fields, widest
from framework.sources.cloud_files.columns.hints import as_texts, fields_to_add, hinted_folders, opened, with_hints
from framework.sources.cloud_files.columns.schemas import FileSchema, SchemaStore
from framework.sources.cloud_files.files.folders import folder_type
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.cloud_files.settings.options import CloudFilesOptions

pytestmark = pytest.mark.usefixtures("spark")  # it parses DDL


def columns(ddl: str) -> StructType:
    """A schema from its DDL."""
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


def options(*, has_schema: bool = False, **given: str) -> CloudFilesOptions:
    """Options with the format JSON, named as keyword arguments."""
    named = {f"cloudfiles.{name}".lower(): value for name, value in given.items()}
    return parse_options("/in", {"cloudfiles.format": "json", **named}, has_schema=has_schema, zone="UTC")


def test_fields_that_differ_in_case_only_are_found_at_any_depth() -> None:
    """JSON has both; a reader would lose the value of one of them."""
    known = columns("id INT, at STRUCT<x: INT, in: ARRAY<STRUCT<y: INT>>>, m MAP<STRING, STRUCT<z: INT>>")
    same = columns("id INT, at STRUCT<x: INT, more: INT>")
    assert case_variants(known, same) == []
    other = columns("ID INT, at STRUCT<X: INT, in: ARRAY<STRUCT<Y: INT>>>, m MAP<STRING, STRUCT<Z: INT>>")
    assert case_variants(known, other) == ["ID", "at.X", "at.in.element.Y", "m.value.Z"]
    assert case_variants(known, columns("new STRUCT<a: INT, A: INT>")) == ["new.A"]


def test_hints_reach_into_arrays_and_maps() -> None:
    """`element`, `key` and `value` name their parts; the other fields stay."""
    data = columns(
        "items ARRAY<STRUCT<id: BIGINT, name: STRING>>, tags ARRAY<BIGINT>, m MAP<STRING, BIGINT>, at STRING"
    )
    hints = (
        "items.element.id STRING, tags.element INT, m.value DOUBLE, m.key INT, at.x DATE, new ARRAY<INT>, "
        "list.element.a INT"
    )
    assert with_hints(data, options(schemaHints=hints)) == columns(
        "items ARRAY<STRUCT<id: STRING, name: STRING>>, tags ARRAY<INT>, m MAP<INT, DOUBLE>, at STRUCT<x: DATE>, "
        "new ARRAY<INT>, list ARRAY<STRUCT<a: INT>>"
    )


def test_a_hint_is_a_column_of_a_schema_with_any_name() -> None:
    """Commas, dots and backticks of names and comments end no hint; one without a name in front is no struct."""
    hints = "`a,b` INT COMMENT 'x, y', `c``d`.`e.f`: DATE, g: DECIMAL(5,2), h:i STRING, j STRUCT<k: INT, l: STRING>"
    found = with_hints(columns("G BIGINT"), options(schemaHints=hints))
    assert found.simpleString() == (
        "struct<G:decimal(5,2),a,b:int,h:i:string,j:struct<k:int,l:string>,c`d:struct<e.f:date>>"
    )
    assert found["a,b"].metadata == {"comment": "x, y"}
    for invalid in ("id DATE INT", "id", "id STRING x INT", "id INT>, x INT", "id `a"):
        with pytest.raises(UserError) as raised:
            with_hints(found, options(schemaHints=invalid))
        assert raised.value.condition == "CLOUD_FILES_HINTS_INVALID"


@pytest.mark.parametrize(
    ("hints", "problem"),
    [
        ("id INT, ID STRING", "The hint `id INT` of `cloudFiles.schemaHints` contradicts `ID STRING`"),
        ("at.x DATE, at STRING", "The hint `at.x DATE` of `cloudFiles.schemaHints` contradicts `at STRING`"),
        ("at STRUCT<x: INT>, At.X DATE", "contradicts `At.X DATE`: one is inside of the other."),
        ("new.element INT, new.element STRING", "both give a type to one column."),
        ("id.x INT", "contradicts the type of `id`: bigint has no field `x`."),
        ("tags.x INT", "contradicts the type of `tags`: array<bigint> has no field `x`."),
        ("m.x INT", "contradicts the type of `m`: map<string,bigint> has no field `x`."),
        ("at.x.y INT", "contradicts the type of `at.x`: bigint has no field `y`."),
    ],
)
def test_hints_that_contradict_each_other_or_a_column_are_refused(hints: str, problem: str) -> None:
    """None of them wins in silence; a recorded column, which a hint may have added, is no reason to fail later."""
    data = columns("id BIGINT, at STRUCT<x: BIGINT>, tags ARRAY<BIGINT>, m MAP<STRING, BIGINT>, unknown STRING")
    with pytest.raises(UserError) as raised:
        with_hints(data, options(schemaHints=hints), is_new=True)
    assert raised.value.condition == "CLOUD_FILES_HINTS_CONFLICT"
    assert problem in raised.value.what
    later = options(schemaHints="id.x INT, unknown.x INT")
    assert with_hints(data, later)["id"].dataType == columns("x INT") == with_hints(data, later)["unknown"].dataType


def test_hints_that_agree_are_applied_in_any_order() -> None:
    """A hint for a field adds to the one for its column."""
    both = columns("at STRUCT<x: INT, y: DATE>")
    for hints in ("at STRUCT<x: INT>, at.y DATE", "at.y DATE, at STRUCT<x: INT>, AT.x INT"):
        assert with_hints(columns("at STRING"), options(schemaHints=hints), is_new=True) == both


def test_the_name_of_a_folder_has_the_type_of_a_hint_unless_that_is_nested() -> None:
    """It is one value."""
    folders = columns("date STRING, n BIGINT")
    for hints, type_of_n in (("N INT", "INT"), ("other STRUCT<x: INT>", "BIGINT")):
        given = options(schemaHints=hints)
        found = hinted_folders(folders, with_hints(columns("id INT"), given), given)
        assert found == columns(f"date STRING, n {type_of_n}")
    for hints in ("date.x INT", "n ARRAY<INT>"):
        given = options(schemaHints=hints)
        with pytest.raises(UserError) as raised:
            hinted_folders(folders, with_hints(columns("id INT"), given), given)
        assert raised.value.condition == "CLOUD_FILES_HINTS_CONFLICT"


def test_nested_values_are_texts_unless_types_are_inferred_or_hinted() -> None:
    """Flows with other hints share the recorded columns, which have all fields."""
    stored = columns("id STRING, at STRUCT<x: STRING, y: STRING>, many ARRAY<STRING>")
    assert as_texts(stored, options()) == columns("id STRING, at STRING, many STRING")
    assert as_texts(stored, options(schemaHints="at.x INT")) == columns(
        "id STRING, at STRUCT<x: STRING, y: STRING>, many STRING"
    )
    assert as_texts(stored, options(inferColumnTypes="true")) == stored
    older = columns("id STRING, at STRING, many STRING")
    assert opened(older, stored, options()) == stored
    assert opened(older, stored, options(inferColumnTypes="true")) == older


def test_a_field_that_a_hint_leaves_out_is_not_new() -> None:
    """It could never be added: the flow would stop for it at each start."""
    hinted = options(schemaHints="at STRUCT<x: INT>")
    known = with_hints(columns("id INT, at STRUCT<x: INT, y: INT>"), hinted)
    found = columns("id INT, at STRUCT<x: INT, y: INT>, city STRING")
    assert new_fields(known, found) == ["at.y", "city"]
    assert fields_to_add(known, found, hinted) == ["city"]
    assert fields_to_add(known, found, options()) == ["at.y", "city"]


def test_columns_stay_recorded_when_a_reader_ignores_files(tmp_path: Path) -> None:
    """Errors advise `ignoreMissingFiles`, which changes no column, nor does a slash."""
    store = SchemaStore(storage=LocalStorage(str(tmp_path)), root=str(tmp_path / "schemas"))
    schema = FileSchema(data=columns("id INT, gone STRING"), partitions=StructType([]), rescued="_rescued_data")
    plain = options()
    ignoring = parse_options(
        "/in", {"cloudfiles.format": "json", "ignoremissingfiles": "true"}, has_schema=False, zone="UTC"
    )
    store.record(plain, schema)
    assert store.read(ignoring) == schema
    assert store.read(replace(plain, path="file:///in/")) == schema
    assert store.read(options(schemaEvolutionMode="rescue")) is None


def test_types_of_folders_are_those_that_all_their_values_have() -> None:
    """A day that no month has is no date."""
    values: tuple[list[str], ...] = (
        ["1", "-2", "__HIVE_DEFAULT_PARTITION__"],
        ["2025-01-31"],
        ["2025-02-30"],
        ["2025-1-1"],
        ["1", "x"],
        [],
    )
    found = [folder_type(texts).simpleString() for texts in values]
    assert found == ["bigint", "date", "string", "string", "string", "string"]


def test_types_of_files_become_the_widest_one() -> None:
    """Numbers widen without loss; other types are strings together."""
    pairs = {
        ("INT", "BIGINT"): "bigint", ("FLOAT", "DOUBLE"): "double", ("INT", "DOUBLE"): "double",
        ("INT", "FLOAT"): "double",
        ("BIGINT", "DOUBLE"): "string", ("DATE", "TIMESTAMP"): "timestamp", ("INT", "STRING"): "string",
        ("STRUCT<a: INT>", "STRUCT<a: BIGINT, b: INT>"): "struct<a:bigint,b:int>",
        ("ARRAY<INT>", "ARRAY<BIGINT>"): "array<bigint>",
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>"): "map<string,bigint>",
        ("DECIMAL(5,2)", "DECIMAL(7,1)"): "decimal(8,2)", ("INT", "DECIMAL(5,2)"): "decimal(12,2)",
    }  # fmt: skip
    found = {pair: widest(*(columns(f"a {kind}").fields[0].dataType for kind in pair)).simpleString() for pair in pairs}
    assert found == pairs


@pytest.mark.parametrize("kind", ["INT", "STRUCT<x: INT>"])
def test_a_schema_with_the_rescued_column_has_it_as_a_string(kind: str) -> None:
    """Another type contradicts the option."""
    given = parse_options(
        "/in", {"cloudfiles.format": "json", "rescueddatacolumn": "rest"}, has_schema=True, zone="UTC"
    )
    with pytest.raises(UserError) as raised:
        FileSchema.given(given, columns(f"id INT, rest {kind}"))
    assert raised.value.condition == "CLOUD_FILES_OPTION_CONFLICT"
    assert FileSchema.given(given, columns("id INT, rest STRING")).columns == columns("id INT, rest STRING")
