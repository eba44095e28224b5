"""The pipeline spec: its keys, and the errors of invalid values with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework import Pipeline
from framework.declare.pipeline_spec import Library, PipelineSpec, find_spec, load_spec
from framework.foundation.errors import GraphErrors, UserError

FULL = """\
name: flights
storage: hdfs://host/flights
catalog: dev
schema: air
configuration: {start: "2013-01-01", limit: 3, strict: true}
spark_conf: {spark.sql.shuffle.partitions: "4"}
libraries:
  - glob: {include: transformations/**}
  - file: {path: extra.py}
continuous: false
development: true
"""


def write(folder: Path, text: str, name: str = "pipeline.yml") -> Path:
    """A spec in a file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_every_key_is_read(tmp_path: Path) -> None:
    """Values of the configuration are text, as Spark writes them."""
    path = write(tmp_path, FULL)
    expected = PipelineSpec(
        name="flights",
        storage="hdfs://host/flights",
        catalog="dev",
        schema="air",
        configuration=(("start", "2013-01-01"), ("limit", "3"), ("strict", "true")),
        spark_conf=(("spark.sql.shuffle.partitions", "4"),),
        libraries=(Library(pattern="transformations/**", line=8), Library(pattern="extra.py", line=9)),
        development=True,
        root=str(tmp_path.resolve()),
        file=str(path),
    )
    assert expected == load_spec(path)


def test_a_runtime_has_its_settings_unless_the_spec_sets_them(tmp_path: Path) -> None:
    """A version without quotes is a number in YAML; a newer runtime has fewer settings."""
    text = "name: p\nruntime: 15.4\nspark_conf: {spark.sql.legacy.javaCharsets: false}\n"
    found = dict(load_spec(write(tmp_path, text)).spark_conf)
    assert (found["spark.sql.ansi.enabled"], found["spark.sql.legacy.javaCharsets"]) == ("false", "false")
    newer = dict(load_spec(write(tmp_path, 'name: p\nruntime: "17.3 LTS"\n')).spark_conf)
    assert {*newer} < {*found} - {"spark.sql.ansi.enabled"}
    with pytest.raises(GraphErrors) as caught:
        load_spec(write(tmp_path, "name: p\nruntime: newest\n"))
    assert [(error.condition, error.location and error.location.line) for error in caught.value.errors] == [
        ("PIPELINE_SPEC_RUNTIME", 2)
    ]


def test_two_default_schemas_are_refused_at_the_line_of_the_second(tmp_path: Path) -> None:
    """`schema` and its older names must agree."""
    path = write(tmp_path, "name: p\nschema: a\ncontinuous: true\ntarget: b\n")
    with pytest.raises(GraphErrors) as caught:
        load_spec(path)
    assert [(error.condition, error.location and error.location.line) for error in caught.value.errors] == [
        ("PIPELINE_SPEC_SCHEMA_TWICE", 4),
    ]


@pytest.mark.parametrize("line", ["libraries:", "configuration:", "spark_conf:"])
def test_a_key_without_a_value_is_one_that_is_left_out(tmp_path: Path, line: str) -> None:
    """YAML reads it as null, which counts as omitted."""
    path = write(tmp_path, f"name: p\n{line}\n")
    root = tmp_path.resolve()
    assert PipelineSpec(name="p", storage=str(root / ".sluice/p"), root=str(root), file=str(path)) == load_spec(path)


@pytest.mark.parametrize("name", ["''", "", "5", "[p]"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """An empty name, or one that is no text, could name no folder."""
    with pytest.raises(GraphErrors) as caught:
        load_spec(write(tmp_path, f"name: {name}\n"))
    assert [error.condition for error in caught.value.errors] == ["PIPELINE_SPEC_FIELD_TYPE"]


def test_left_out_keys_have_their_defaults(tmp_path: Path) -> None:
    """Only the name is required; the default storage is next to the spec."""
    path = write(tmp_path, "name: p\n")
    root = tmp_path.resolve()
    assert PipelineSpec(name="p", storage=str(root / ".sluice/p"), root=str(root), file=str(path)) == load_spec(path)


@pytest.mark.parametrize("key", ["schema", "database", "target"])
def test_a_schema_has_three_spellings(tmp_path: Path, key: str) -> None:
    """Lakeflow's, Spark's and DLT's."""
    assert load_spec(write(tmp_path, f"name: p\n{key}: air\n")).schema == "air"


def test_a_spec_of_sparks_own_runs_as_it_is(tmp_path: Path) -> None:
    """A storage with the scheme file: is a local folder."""
    text = "name: p\nstorage: file:///data/p\ndatabase: air\nlibraries:\n  - glob:\n      include: transformations/**\n"
    spec = load_spec(write(tmp_path, text, "spark-pipeline.yml"))
    assert (spec.storage, spec.schema, [each.pattern for each in spec.libraries]) == (
        "/data/p",
        "air",
        ["transformations/**"],
    )


def test_databricks_automatic_number_of_partitions_is_left_to_spark(tmp_path: Path) -> None:
    """Spark itself takes a number only; other settings stay."""
    setting = "spark.sql.shuffle.partitions"
    text = f"name: p\nspark_conf: {{{setting}: auto, a: auto}}\nconfiguration: {{{setting}: Auto}}\n"
    found = load_spec(write(tmp_path, text))
    assert (found.spark_conf, found.configuration) == ((("a", "auto"),), ())
    assert found.with_parameters({setting: "auto", "b": "1"}).configuration == (("b", "1"),)
    numbers: dict[str, Any] = {setting: 4, "b": True}  # Spark takes both
    assert dict(Pipeline(name="p", spark_conf=numbers).spec.spark_conf) == numbers


def test_parameters_go_over_the_configuration(tmp_path: Path) -> None:
    """Replaced where the key is known, added where it is not."""
    spec = load_spec(write(tmp_path, "name: p\nconfiguration: {a: x, b: y}\n"))
    assert spec.with_parameters({"b": "z", "c": "w"}).configuration == (("a", "x"), ("b", "z"), ("c", "w"))


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("name: p\nlibrarys: []\n", [("PIPELINE_SPEC_UNEXPECTED_FIELD", 2)]),
        ("storage: x\n", [("PIPELINE_SPEC_MISSING_REQUIRED_FIELD", 1)]),
        (
            "name: 3\ncontinuous: yes please\nconfiguration: [a]\nlibraries: x\n",
            [("PIPELINE_SPEC_FIELD_TYPE", line) for line in (1, 2, 3, 4)],
        ),
        ("name: p\nconfiguration:\n  a: x\n  b: [y]\n", [("PIPELINE_SPEC_FIELD_TYPE", 4)]),
        ("name: p\nlibraries:\n  - jar: x\n  - glob: {include: a}\n", [("PIPELINE_SPEC_LIBRARY", 3)]),
    ],
)
def test_each_fault_is_told_with_its_line(tmp_path: Path, text: str, faults: list[tuple[str, int]]) -> None:
    """All of them together."""
    path = write(tmp_path, text)
    with pytest.raises(GraphErrors) as caught:
        load_spec(path)
    assert [(each.condition, each.location and each.location.line) for each in caught.value.errors] == faults


def test_an_unknown_key_is_told_the_nearest_known_one(tmp_path: Path) -> None:
    """The error suggests it."""
    with pytest.raises(GraphErrors) as caught:
        load_spec(write(tmp_path, "name: p\nlibrarys: []\n"))
    assert caught.value.errors[0].fields["hint"] == " Did you mean `libraries`?"


@pytest.mark.parametrize("text", ["name: [\n", "- a\n", "", "name: !!python/object:os.system x\n"])
def test_what_is_no_yaml_of_a_spec_is_refused(tmp_path: Path, text: str) -> None:
    """Nor are Python objects made of it."""
    with pytest.raises(UserError) as caught:
        load_spec(write(tmp_path, text))
    assert caught.value.condition == "PIPELINE_SPEC_INVALID_YAML"


def test_a_spec_is_found_in_the_folder_or_the_nearest_above(tmp_path: Path) -> None:
    """Ours before Spark's own."""
    spark = write(tmp_path, "name: p\n", "spark-pipeline.yml")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_spec(deep) == spark
    ours = write(tmp_path, "name: p\n")
    assert find_spec(deep) == ours
    nearer = write(tmp_path / "a", "name: p\n")
    assert find_spec(deep) == nearer


def test_a_missing_spec_is_refused(tmp_path: Path) -> None:
    """With the name of the file."""
    with pytest.raises(UserError) as caught:
        load_spec(tmp_path / "none.yml")
    assert caught.value.condition == "PIPELINE_SPEC_FILE_DOES_NOT_EXIST"


@pytest.mark.parametrize("name", ["..", ".", "../..", "a/../..", "/etc", "a//b"])
def test_a_name_that_leads_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    """The default storage is called after the pipeline; `..` would be the project's own folder."""
    with pytest.raises(GraphErrors) as caught:
        load_spec(write(tmp_path, f"name: {name}\n"))
    found = [(error.condition, error.location and error.location.line) for error in caught.value.errors]
    assert found == [("INVALID_PIPELINE_NAME", 1)]
    assert load_spec(write(tmp_path, f"name: {name}\nstorage: data\n")).storage == str(tmp_path / "data")
    with pytest.raises(UserError, match="INVALID_PIPELINE_NAME"):
        Pipeline(name=name)
