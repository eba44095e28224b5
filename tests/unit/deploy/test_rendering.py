"""Templates over a short spec are rendered to plain bundle files, without undefined names and partial writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from framework.cli.main import cli
from framework.deploy.ingestion.rendered_files import RENDERED, rendered_files, write_rendered
from framework.deploy.ingestion.rendering_process import Limits, render_in_process, render_in_subprocess
from framework.foundation.errors import UserError
from tests.support.sources import ROOT

SPEC = """\
template: t.yml.j2
source: {connection: c, database: Sales}
tables:
  orders: {primary_keys: [id]}
schedules:
  daily: {cron: 0 0 3 * * ?}
targets:
  ingestion: {catalog: main, schema: sales}
"""
TEMPLATE = "targets:\n{% for target in targets %}\n  {{ target.name }}: {}\n{% endfor %}\n"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The root of a bundle with one spec and one template."""
    for folder in ("specs", "templates"):
        (tmp_path / "bundles" / folder).mkdir(parents=True)
    write(tmp_path, spec=SPEC, template=TEMPLATE)
    return tmp_path


def write(root: Path, *, spec: str | None = None, template: str | None = None) -> None:
    """Set the spec or the template."""
    if spec is not None:
        (root / "bundles/specs/sales.yml").write_text(spec, encoding="utf-8")
    if template is not None:
        (root / "bundles/templates/t.yml.j2").write_text(template, encoding="utf-8")


def render(root: Path) -> str:
    """Render, and return the resulting files."""
    write_rendered(root, rendered_files(root, render=render_in_process))
    return (root / RENDERED / "sales.yml").read_text("utf-8")


def fault(root: Path) -> UserError:
    """Return the error of rendering; asserts that nothing was written."""
    with pytest.raises(UserError) as raised:
        write_rendered(root, rendered_files(root, render=render_in_process))
    assert not (root / RENDERED).exists() or not any((root / RENDERED).iterdir())
    return raised.value


def test_a_rendered_file_says_where_it_comes_from_and_is_the_same_each_time(bundle: Path) -> None:
    """Its head names spec and template; rendering again changes nothing."""
    text = (
        "# Rendered by `sluice bundle render` from bundles/specs/sales.yml and bundles/templates/t.yml.j2; do not edit."
        "\ntargets:\n  ingestion: {}\n"
    )
    assert render(bundle) == text
    assert [file.state for file in rendered_files(bundle)] == ["same"]
    assert write_rendered(bundle, rendered_files(bundle)) == ()


def test_check_tells_each_file_that_differs_and_writes_nothing(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 and the file's name while one is missing, edited or left over; 0 when all are as they should be."""
    monkeypatch.chdir(bundle)

    def check() -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["bundle", "render", "--check"])
        return result.exit_code, " ".join(result.stdout.split("\n")[-2].split())

    assert check() == (2, "bundles/rendered/sales.yml missing")
    assert not (bundle / RENDERED).exists()
    assert CliRunner().invoke(cli, ["bundle", "render"]).exit_code == 0
    assert check() == (0, "1 rendered files are up to date.")
    rendered = bundle / RENDERED / "sales.yml"
    rendered.write_text(rendered.read_text("utf-8") + "# by hand\n", encoding="utf-8")
    assert check() == (2, "bundles/rendered/sales.yml differs")
    (bundle / "bundles/specs/sales.yml").unlink()
    assert check() == (2, "bundles/rendered/sales.yml left over")
    assert CliRunner().invoke(cli, ["bundle", "render"]).exit_code == 0
    assert not rendered.exists()


def test_this_repositorys_rendered_files_are_those_of_its_specs() -> None:
    """This is `sluice bundle render --check` for this repository; CI runs it as this test."""
    assert {file.path.as_posix(): file.state for file in rendered_files(ROOT)} == {"bundles/rendered/sales.yml": "same"}


POLICIES = {
    "enabled: true": {"enabled": True, "min_interval_hours": 24},
    "enabled: true, min_interval_hours: 0": {"enabled": True, "min_interval_hours": 0},
    "enabled: false": None,
}


@pytest.mark.parametrize(("policy", "rendered"), POLICIES.items(), ids=POLICIES)
def test_the_policy_of_a_table_is_that_of_its_ingestion(bundle: Path, policy: str, rendered: object) -> None:
    """This repository's template hands it on with its default; a table without one has no entry."""
    orders = f"primary_keys: [id], auto_full_refresh_policy: {{{policy}}}"
    write(
        bundle,
        spec=SPEC.replace("primary_keys: [id]", orders),
        template=(ROOT / "bundles/templates/ingestion.yml.j2").read_text("utf-8"),
    )
    resources = yaml.safe_load(render(bundle))["targets"]["ingestion"]["resources"]["pipelines"]
    (table,) = next(each["ingestion_definition"]["objects"] for key, each in resources.items() if "gateway" not in key)
    assert table["table"]["table_configuration"].get("auto_full_refresh_policy") == rendered


FAULTY_SPECS = {
    "too often": ("gateway: {progress_event_frequency_seconds: 29}", "BUNDLE_FIELD_RANGE", 9, "from 30 to 3600"),
    "too seldom": ("gateway: {progress_event_frequency_seconds: 3601}", "BUNDLE_FIELD_RANGE", 9, "from 30 to 3600"),
    "no number": ("gateway: {progress_event_frequency_seconds: often}", "BUNDLE_FIELD_RANGE", 9, "from 30 to 3600"),
    "a truth is no number": ("gateway: {progress_event_frequency_seconds: true}", "BUNDLE_FIELD_RANGE", 9, "to 3600"),
    "an unknown word": ("gatewy: {}", "BUNDLE_UNKNOWN_KEY", 9, "Did you mean `gateway`?"),
    "an unknown word below": ("gateway: {clusters: {}}", "BUNDLE_UNKNOWN_KEY", 9, "Did you mean `cluster`?"),
    "a text where a list is due": ("notify_on_failure: ada", "BUNDLE_FIELD_TYPE", 9, "expected a list"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "condition", "number", "text"), FAULTY_SPECS.values(), ids=FAULTY_SPECS)
def test_a_fault_of_the_spec_has_its_line(bundle: Path, line: str, condition: str, number: int, text: str) -> None:
    """The error has condition, file, line, and the expected value."""
    write(bundle, spec=SPEC + line + "\n")
    error = fault(bundle)
    assert (error.condition, str(error.location).rsplit(":", 1)[0]) == (condition, f"bundles/specs/sales.yml:{number}")
    assert text in error.what


REPLACED = {
    "a schedule of a table that is not there": ("cron: 0 0 3 * * ?}", "cron: x, tables: [order]}",
                                                "BUNDLE_SPEC_TABLE_UNKNOWN", 6),
    "an SCD type that is none": ("primary_keys: [id]", "scd_type: 2", "BUNDLE_FIELD_TYPE", 4),
    "an SCD type that is unknown": ("primary_keys: [id]", "scd_type: SCD2", "BUNDLE_FIELD_RANGE", 4),
    "columns both in and out": ("primary_keys: [id]", "include_columns: [a], exclude_columns: [b]",
                                "BUNDLE_SPEC_COLUMNS", 4),
    "an unknown word of a policy": ("primary_keys: [id]", "auto_full_refresh_policy: {hours: 2}",
                                    "BUNDLE_UNKNOWN_KEY", 4),
    "a policy of less than no hours": ("primary_keys: [id]", "auto_full_refresh_policy: {min_interval_hours: -1}",
                                       "BUNDLE_FIELD_RANGE", 4),
    "two tables of one name": ("  orders:", "  a.orders: {}\n  orders:", "BUNDLE_SPEC_TABLE_TWICE", 5),
    "no tables": ("  orders: {primary_keys: [id]}\n", "", "BUNDLE_FIELD_MISSING", 1),
    "no connection": ("connection: c, ", "", "BUNDLE_FIELD_MISSING", 2),
    "a template that is not there": ("t.yml.j2", "nobody.yml.j2", "BUNDLE_TEMPLATE_MISSING", 1),
    "a template outside the folder": ("t.yml.j2", "../specs/sales.yml", "BUNDLE_TEMPLATE_MISSING", 1),
    "a template of the machine": ("t.yml.j2", "/etc/passwd", "BUNDLE_TEMPLATE_MISSING", 1),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "condition", "line"), REPLACED.values(), ids=REPLACED)
def test_what_the_spec_says_has_to_fit(bundle: Path, old: str, new: str, condition: str, line: int) -> None:
    """References must exist, keys must be known, and each error has the line of the key."""
    assert old in SPEC
    write(bundle, spec=SPEC.replace(old, new))
    error = fault(bundle)
    assert (error.condition, error.location is not None and error.location.line) == (condition, line)


FAULTY_TEMPLATES = {
    "an undefined name": ("a: {{ nobody }}", "'nobody' is undefined"),
    "an undefined field": ("a: {{ source.nobody }}", "has no attribute 'nobody'"),
    "an undefined name in a condition": ("{% if nobody %}{% endif %}", "'nobody' is undefined"),
    "a way out by a class": ("a: {{ name.__class__ }}", "access to attribute '__class__'"),
    "a way out by a method": ("a: {{ ''.__class__.__mro__ }}", "unsafe"),
    "a way out by format": ("a: {{ '{0.__class__}'.format(name) }}", "access to attribute '__class__'"),
    "a change to the spec": ("a: {{ source.update({'database': 'x'}) }}", "unsafe"),
    "a range without end": ("a: {{ range(10000000) | length }}", "Range too big"),
    "a macro without end": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
    "chance": ("a: {{ tables | random }}", "No filter named 'random'"),
    "an unknown statement": ("{% import_all %}", "unknown tag"),
    "a file of the machine": ("{% include '/etc/passwd' %}", ""),
    "a file outside": ("{% include '../specs/sales.yml' %}", ""),
    "a text that is no plain YAML": ("a: {{ 'x: y' }}", "would not be read unchanged from YAML"),
    "a list": ("a: {{ tables }}", "would not be read unchanged from YAML"),
    "a word that YAML takes for a truth": ("a: {{ 'no' }}", "would not be read unchanged from YAML"),
    "an arithmetic fault": ("a: {{ 1 // 0 }}", "zero"),
    "a number that is none": ("a: {{ 1e400 }}", "inf"),
    "a text that HTML would call safe": ("a: {{ 'x: y' | safe }}", "No filter named 'safe'"),
    "a text that HTML would escape": ("a: {{ 'x: y' | e }}", "No filter named 'e'"),
    "a value beside YAML": ("a: {{ ('p' | yaml) ~ hostile }}", "would not be read unchanged from YAML"),
    "a value beside a macro's text": (
        "{% macro m() %}p{% endmacro %}a: {{ m() ~ hostile }}", "would not be read unchanged from YAML"
    ),
    "a value added to YAML": ("a: {{ ('p' | yaml) + hostile }}", "would not be read unchanged from YAML"),
    "a value formatted into YAML": ("a: {{ ('%s' | yaml) % hostile }}", "would not be read unchanged from YAML"),
    "a value filtered into YAML": ("a: {{ 'p' | yaml | replace('p', hostile) }}", "would not be read unchanged"),
    "a value put into YAML by a method": ("a: {{ ('p' | yaml).replace('p', hostile) }}", "would not be read unchanged"),
    "a part of a quoted text": ("a: {{ (hostile | yaml)[0:] }}", "would not be read unchanged from YAML"),
    "a value joined with YAML": ("a: {{ ['p' | yaml, hostile] | join(', ') }}", "would not be read unchanged"),
    "a value that joins YAML": ("a: {{ ['p' | yaml, 'q' | yaml] | join(hostile) }}", "would not be read unchanged"),
    "a value that indents YAML": ("a: {{ 'p' | yaml | indent(hostile, true) }}", "invalid literal for int()"),
    "a block that is filtered": ("{% filter replace('p', hostile) %}a: p{% endfilter %}", "would not be read"),
    "a call with a block": ("{% call hostile.format() %}{% endcall %}", "would not be read unchanged from YAML"),
    "a filtered block that is set": ("{% set a | upper %}a: b{% endset %}", "a filter of a `set` block"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "text"), FAULTY_TEMPLATES.values(), ids=FAULTY_TEMPLATES)
def test_a_fault_of_the_template_has_its_line(bundle: Path, line: str, text: str) -> None:
    """Undefined names, escapes from the sandbox and the folder, and invalid YAML: the error has the template's line."""
    write(bundle, template="# first\n{% set hostile = 'x\"\\n  b: [1]' %}\n" + line + "\n")
    error = fault(bundle)
    assert error.condition in ("BUNDLE_TEMPLATE_INVALID", "BUNDLE_TEMPLATE_MISSING")
    assert (str(error.location), text in error.what) == ("bundles/templates/t.yml.j2:3", True)


def test_a_fault_of_the_template_tells_no_secret(bundle: Path) -> None:
    """The error shows the invalid YAML text with its secret hidden."""
    write(bundle, template="a: {{ 'password=hunter2hunter2; b: c' }}\n")
    told = fault(bundle).render()
    assert ("hunter2" in told, "password=hidden:" in told) == (False, True)


def test_a_fault_in_an_included_template_has_its_own_line(bundle: Path) -> None:
    """The innermost template is the one to correct."""
    (bundle / "bundles/templates/part.j2").write_text("\na: {{ nobody }}\n", encoding="utf-8")
    write(bundle, template="{% include 'part.j2' %}\n")
    assert str(fault(bundle).location) == "bundles/templates/part.j2:2"


def test_any_value_is_itself_behind_the_filter(bundle: Path) -> None:
    """`| yaml` quotes values that YAML would parse as something else."""
    write(
        bundle,
        template="a: {{ ['no', 'x: y', '#', 'ä\"b', 1, none, 'plain', '${var.x}'] | yaml }}\nb: {{ 'on' | yaml }}\n"
        "c: {{ 'x\\u0085\\u2028\\x9b\\x7f\\ufeff\\U000e0001' | yaml }}\n",
    )
    text = render(bundle)
    assert text.splitlines()[1:] == [
        'a: ["no", "x: y", "#", "ä\\"b", 1, null, "plain", "${var.x}"]',
        'b: "on"',
        r'c: "x\u0085\u2028\u009b\u007f\ufeff\U000e0001"',
    ]
    assert yaml.safe_load(text)["c"] == "x\x85\u2028\x9b\x7f\ufeff\U000e0001"


def test_yaml_beside_yaml_is_yaml(bundle: Path) -> None:
    """Literals and safe values may be beside it, lists of it are joined by punctuation, blocks of it are indented."""
    template = """\
{% macro entry(key, value) %}{{ key ~ ': ' ~ (value | yaml) }}{% endmacro %}
{{ entry('a', 'x: y') }}
b: [{{ ['a: b', 'plain'] | map('yaml') | join(', ') }}]
c: [{{ 'c' | yaml ~ ", 'a & b'" }}]
d: {{ ('a & b: ' ~ name) | yaml }}
e:
{% filter indent(2, true) %}
f: 1
g: {{ ('a: ' | yaml) | length }}
{% endfilter %}
"""
    write(bundle, template=template)
    assert yaml.safe_load(render(bundle)) == {
        "a": "x: y", "b": ["a: b", "plain"], "c": ["c", "a & b"], "d": "a & b: sales",
        "e": {"f": 1, "g": 5},
    }  # fmt: skip


def test_what_would_be_no_yaml_is_not_written(bundle: Path) -> None:
    """The error names template and spec, and the line of the invalid output."""
    write(bundle, template="a: 1\na: 2\n")
    error = fault(bundle)
    assert (error.condition, str(error.location)) == ("BUNDLE_RENDERED_INVALID", "bundles/rendered/sales.yml:3:1")


def test_one_faulty_spec_keeps_all_from_being_written(bundle: Path) -> None:
    """All are made before the first is written."""
    (bundle / "bundles/specs/zebra.yml").write_text("template: t.yml.j2\n", encoding="utf-8")
    assert fault(bundle).condition == "BUNDLE_FIELD_MISSING"


def test_two_specs_do_not_share_a_target(bundle: Path) -> None:
    """A target has one owner, so that one deploy touches one gateway."""
    (bundle / "bundles/specs/web.yml").write_text(SPEC, encoding="utf-8")
    error = fault(bundle)
    assert (error.condition, str(error.location)) == ("BUNDLE_SPEC_TARGET_TWICE", "bundles/specs/web.yml:8:14")


def test_nothing_is_read_or_written_through_a_link(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither a template, a spec nor their folders that link outside, nor a folder or file of rendered ones."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.j2").write_text("a: 1\n", encoding="utf-8")
    template = bundle / "bundles/templates/t.yml.j2"
    template.unlink()
    template.symlink_to(outside / "secret.j2")
    assert fault(bundle).condition == "BUNDLE_TEMPLATE_MISSING"
    template.unlink()
    write(bundle, template=TEMPLATE)
    for path in ("bundles/specs/sales.yml", "bundles/specs", "bundles/templates"):
        (bundle / path).rename(bundle / "aside")
        (bundle / path).symlink_to(outside)
        error = fault(bundle)
        assert (error.condition, error.fields["path"]) == ("BUNDLE_LINK_OUTSIDE", path)
        (bundle / path).unlink()
        (bundle / "aside").rename(bundle / path)
    (bundle / RENDERED).symlink_to(outside)
    with pytest.raises(UserError) as raised:
        rendered_files(bundle)
    assert raised.value.condition == "BUNDLE_RENDERED_OUTSIDE"
    (bundle / RENDERED).unlink()
    (bundle / RENDERED).mkdir()
    (bundle / RENDERED / "sales.yml").symlink_to(outside / "secret.j2")
    with pytest.raises(UserError) as raised:
        rendered_files(bundle)
    assert raised.value.condition == "BUNDLE_RENDERED_OUTSIDE"
    assert sorted(path.name for path in outside.iterdir()) == ["secret.j2"]
    assert (outside / "secret.j2").read_text("utf-8") == "a: 1\n"


def test_a_file_of_somebody_else_is_not_overwritten(bundle: Path) -> None:
    """Only files with the head of a rendered one are."""
    (bundle / RENDERED).mkdir()
    (bundle / RENDERED / "sales.yml").write_text("a: 1\n", encoding="utf-8")
    (bundle / RENDERED / "other.yml").write_text("a: 1\n", encoding="utf-8")
    with pytest.raises(UserError) as raised:
        rendered_files(bundle)
    assert raised.value.condition == "BUNDLE_RENDERED_FOREIGN"
    (bundle / RENDERED / "sales.yml").unlink()
    render(bundle)
    assert (bundle / RENDERED / "other.yml").read_text("utf-8") == "a: 1\n"


def test_what_cant_be_written_leaves_what_was_there(bundle: Path) -> None:
    """A file with the folder's name stays, and the error says so."""
    (bundle / RENDERED).write_text("mine\n", encoding="utf-8")
    with pytest.raises(UserError) as raised:
        write_rendered(bundle, rendered_files(bundle))
    assert raised.value.condition == "BUNDLE_RENDERED_UNWRITABLE"
    assert (bundle / RENDERED).read_text("utf-8") == "mine\n"


ENDLESS = {
    "loops in loops": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "a macro that calls itself twice": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}"
    ),
    "a loop that calls itself twice": (
        "{% for a in [1] recursive %}{% if loop.depth < 60 %}{{ loop([1]) }}{{ loop([1]) }}{% endif %}{% endfor %}"
    ),
    "a text that doubles": (
        "{% set n = namespace(x='12345678') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
    ),
    "a list that doubles": (
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | yaml }}"
    ),
    "a repeated text": "{{ 'x' * 10 ** 11 }}",
    "a wide text": "{{ 'x' | center(10 ** 11) }}",
    "a power": "{{ 10 ** (10 ** 10) }}",
    "a search that no signal interrupts": "{{ ('a' * 1000000).rfind('ab' ~ 'a' * 500000) }}",
    "much output": "{% for a in range(90000) %}{% for b in range(90000) %}{{ name * 99 }}{% endfor %}{% endfor %}",
}


@pytest.mark.parametrize("line", ENDLESS.values(), ids=ENDLESS)
def test_a_template_that_multiplies_without_end_is_ended(bundle: Path, line: str) -> None:
    """Memory, CPU time or size is limited; the error has the line unless the process was killed; nothing is written."""
    write(bundle, template=f"# first\n{line}\n")
    limits = Limits(seconds=0.2, mebibytes=256)
    with pytest.raises(UserError) as raised:
        rendered_files(bundle, render=lambda *given: render_in_subprocess(*given, limits=limits))
    error = raised.value
    killed, too_long = "rfind" in line, "name * 99" in line
    place = "bundles/specs/sales.yml:1:11" if killed else f"bundles/templates/t.yml.j2:{1 if too_long else 2}"
    assert (error.condition, str(error.location)) == ("BUNDLE_TEMPLATE_INVALID", place)
    assert any(
        text in error.what for text in ("it uses more than", "it exceeds the memory", "its output has more than")
    )


def test_a_process_of_its_own_renders_the_same_and_tells_the_same_faults(bundle: Path) -> None:
    """The texts are equal, and so are condition, fields and location of an error."""
    assert rendered_files(bundle) == rendered_files(bundle, render=render_in_process)
    write(bundle, template="\na: {{ nobody }}\n")
    here = fault(bundle)
    with pytest.raises(UserError) as raised:
        rendered_files(bundle)
    assert (raised.value.condition, raised.value.fields, raised.value.location) == (
        here.condition, here.fields, here.location,
    )  # fmt: skip
