"""The lint reports settings that would restart, lose or couple a gateway: location, severity and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.documents.findings import Severity
from framework.deploy.bundle.loading import load_bundle
from framework.foundation.errors import UserError
from tests.support.sources import ROOT

USER = "ada@example.com"
GATEWAY = """\
bundle: {name: sales, git: {branch: main}}
variables:
  commit: {default: none}
  day: {default: 2020-01-01}
  stamp: {default: "from ${bundle.git.branch}"}
  team: {default: data}
targets:
  ingestion:
    resources:
      schemas:
        staging: {name: staging, catalog_name: main, lifecycle: {prevent_destroy: true}}
      pipelines:
        gateway:
          name: gateway
          continuous: true
          lifecycle: {prevent_destroy: true}
          gateway_definition: {connection_name: c, gateway_storage_catalog: main, gateway_storage_schema: staging}
"""
FIRST = 18
"""The line of what a test writes below the gateway."""


def load(folder: Path, text: str, **variables: str) -> Bundle:
    """The bundle's only target."""
    (folder / "databricks.yml").write_text(text, encoding="utf-8")
    return load_bundle(folder, variables=variables, user=USER)


def found(folder: Path, text: str, **variables: str) -> list[tuple[str, str, str]]:
    """Return condition, severity and location of each finding."""
    return [
        (each.condition, each.severity.value, str(each.location)) for each in load(folder, text, **variables).findings
    ]


def at(line: int, column: int) -> str:
    """Return a location in the bundle's file."""
    return f"databricks.yml:{line}:{column}"


def test_a_sound_ingestion_target_is_found_nothing_with(tmp_path: Path) -> None:
    """The bundle that the other tests spoil; this repository's own too."""
    assert found(tmp_path, GATEWAY) == []
    targets = ("dev", "prod", "ingestion", "ingestion_dev")
    assert [load_bundle(ROOT, target=target, user=USER).findings for target in targets] == [()] * 4


CHANGING = {
    "git in a tag": ("tags: {c: '${bundle.git.branch}'}", "BUNDLE_GATEWAY_TAG_CHANGES", "warning", 21),
    "git in a text around it": ("tags: {c: 'x-${bundle.git.branch}-y'}", "BUNDLE_GATEWAY_TAG_CHANGES", "warning", 21),
    "git behind a variable": ("tags: {c: '${var.stamp}'}", "BUNDLE_GATEWAY_TAG_CHANGES", "warning", 21),
    "git in a cluster's tag": ("clusters: [{custom_tags: {c: '${bundle.git.branch}'}}]", "BUNDLE_GATEWAY_TAG_CHANGES",
                               "warning", 40),
    "git in the configuration": ("configuration: {c: '${bundle.git.branch}'}", "BUNDLE_GATEWAY_CHANGES", "error", 30),
    "git behind a variable in the configuration": ("configuration: {c: '${var.stamp}'}", "BUNDLE_GATEWAY_CHANGES",
                                                   "error", 30),
    "a fixed tag": ("tags: {c: fixed}", None, "", 0),
    "a variable with a fixed value": ("tags: {c: '${var.team}'}", None, "", 0),
    "a day written in the bundle": ("tags: {c: '${var.day}'}", None, "", 0),
    "the bundle's name": ("tags: {c: '${bundle.name}'}", None, "", 0),
}  # fmt: skip


@pytest.mark.parametrize(("line", "condition", "severity", "column"), CHANGING.values(), ids=CHANGING)
def test_what_is_another_thing_at_each_deploy_must_not_reach_a_gateway(
    tmp_path: Path, line: str, condition: str | None, severity: str, column: int
) -> None:
    """In a tag it is a warning, because the guard defers tags; elsewhere an error: each deploy would restart it."""
    expected = [] if condition is None else [(condition, severity, at(FIRST, column))]
    assert found(tmp_path, f"{GATEWAY}          {line}\n") == expected


MOMENTS = ["2026-11-21T12:00:00Z", "2026-11-21", "20261121120000", "1763726400", "1763726400000", "a1" * 20]


@pytest.mark.parametrize("value", MOMENTS)
def test_a_moment_or_commit_given_with_the_call_must_not_reach_a_gateway(tmp_path: Path, value: str) -> None:
    """`--var commit=$(git rev-parse HEAD)` differs in each call; the finding has the value."""
    text = f"{GATEWAY}          tags: {{c: '${{var.commit}}'}}\n"
    (finding,) = load(tmp_path, text, commit=value).findings
    assert (finding.condition, finding.severity) == ("BUNDLE_GATEWAY_TAG_CHANGES", Severity.WARNING)
    assert f"${{var.commit}}, which is {value} in this deployment" in finding.what
    assert load(tmp_path, text, commit="blue").findings == ()


def test_a_finding_about_a_secret_variable_has_no_value(tmp_path: Path) -> None:
    """A token of forty hexadecimal digits looks like a commit."""
    text = f"{GATEWAY}          tags: {{c: '${{var.api_token}}'}}\n".replace("  team:", "  api_token: {}\n  team:")
    (finding,) = load(tmp_path, text, api_token="a1" * 20).findings
    assert (finding.condition, "a1a1" in finding.what) == ("BUNDLE_GATEWAY_TAG_CHANGES", False)
    assert "${var.api_token}, which is hidden:" in finding.what


PRESETS = {
    "a preset tag": ("{tags: {team: data}}", "", [("BUNDLE_GATEWAY_TAG_UNPINNED", "warning", at(18, 24))]),
    "a preset tag that is pinned": ("{tags: {team: data}}", "tags: {team: sales}", []),
    "a preset tag that is empty at the gateway": (
        "{tags: {team: data}}", "tags: {team: ''}", [("BUNDLE_GATEWAY_TAG_UNPINNED", "warning", at(19, 24))]),
    "git in a preset tag": (
        "{tags: {c: '${bundle.git.branch}'}}", "", [("BUNDLE_GATEWAY_TAG_CHANGES", "warning", at(18, 21))]),
    "git in a preset tag that is pinned": ("{tags: {c: '${bundle.git.branch}'}}", "tags: {c: none}", []),
    "git in the prefix of names": (
        "{name_prefix: '${bundle.git.branch} '}", "", [("BUNDLE_GATEWAY_CHANGES", "error", at(18, 24))]),
}  # fmt: skip


@pytest.mark.parametrize(("presets", "own", "expected"), PRESETS.values(), ids=PRESETS)
def test_presets_that_reach_a_gateway_are_told_unless_it_pins_them(
    tmp_path: Path, presets: str, own: str, expected: list[tuple[str, str, str]]
) -> None:
    """A preset sets missing and empty tags of all resources, including gateways."""
    text = GATEWAY + (f"          {own}\n" if own else "") + f"presets: {presets}\n"
    assert found(tmp_path, text) == expected


def test_a_variable_that_a_variable_names_is_followed(tmp_path: Path) -> None:
    """`${var.${var.team}}` is the variable that `team` names."""
    text = GATEWAY.replace("team: {default: data}", "team: {default: stamp}")
    tag = "          tags: {c: '${var.${var.team}}'}\n"
    assert found(tmp_path, text + tag) == [("BUNDLE_GATEWAY_TAG_CHANGES", "warning", at(FIRST, 21))]


def test_presets_of_a_target_without_a_gateway_are_nobodys_business(tmp_path: Path) -> None:
    """Pipelines that run for minutes may have the commit in their tags."""
    text = (
        "bundle: {name: b, git: {branch: main}}\npresets: {tags: {c: '${bundle.git.branch}'}}\n"
        "resources: {pipelines: {p: {name: p, tags: {d: '${bundle.git.branch}'}}}}\n"
    )
    assert found(tmp_path, text) == []


def test_a_gateway_beside_other_pipelines_is_told(tmp_path: Path) -> None:
    """Its ingestion may be there, and jobs; a transformation makes the target one of many deploys."""
    ingestion = (
        "        ingestion:\n          name: i\n          lifecycle: {prevent_destroy: false}\n"
        "          ingestion_definition: {ingestion_gateway_id: '${resources.pipelines.gateway.id}'}\n"
        "      jobs: {j: {name: j}}\n"
    )
    assert found(tmp_path, GATEWAY + ingestion) == []
    (finding,) = load(tmp_path, f"{GATEWAY}resources: {{pipelines: {{flights: {{name: f}}}}}}\n").findings
    assert (finding.condition, finding.severity.value) == ("BUNDLE_GATEWAY_NOT_APART", "warning")
    assert (str(finding.location), "ingestion also deploys pipelines.flights" in finding.what) == (at(14, 11), True)


def test_what_lasts_has_to_say_whether_it_may_be_destroyed(tmp_path: Path) -> None:
    """Gateway, ingestion pipeline, schemas and volumes of a target with a gateway; `false` is an answer too."""
    bare = GATEWAY.replace("          lifecycle: {prevent_destroy: true}\n", "").replace(
        ", lifecycle: {prevent_destroy: true}", ""
    )
    rest = (
        "        ingestion: {name: i, ingestion_definition: {ingestion_gateway_id: x}}\n"
        "      volumes: {v: {name: v, catalog_name: main, schema_name: staging}}\n      jobs: {j: {name: j}}\n"
    )
    findings = load(tmp_path, bare + rest).findings
    assert {each.what.partition(" ")[0] for each in findings} == {
        "schemas.staging", "pipelines.gateway", "pipelines.ingestion", "volumes.v",
    }  # fmt: skip
    assert {(each.condition, each.severity.value) for each in findings} == {("BUNDLE_DESTROY_NOT_PREVENTED", "warning")}
    assert found(tmp_path, GATEWAY.replace("prevent_destroy: true", "prevent_destroy: false")) == []
    plain = "bundle: {name: b}\nresources: {schemas: {s: {name: s, catalog_name: main}}}\n"
    assert found(tmp_path, plain) == []


SPELLINGS = {
    "channel": ("channel: preview", "PREVIEW"),
    "edition": ("edition: Advanced", "ADVANCED"),
    "catalog": ("catalog: Main", "main"),
    "the service's own": ("channel: CURRENT\n          edition: ADVANCED\n          catalog: main", None),
}


@pytest.mark.parametrize(("line", "expected"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_spelling_that_the_service_changes_is_told(tmp_path: Path, line: str, expected: str | None) -> None:
    """With the spelling to write, at the field's line."""
    findings = load(tmp_path, f"{GATEWAY}          {line}\n").findings
    if expected is None:
        assert findings == ()
        return
    (finding,) = findings
    field = line.partition(":")[0]
    assert (finding.condition, finding.severity.value) == ("BUNDLE_SPELLING", "warning")
    assert (str(finding.location), finding.remedy) == (at(FIRST, 11 + len(field) + 2), f"Write {expected!r}.")


def test_a_spelling_in_a_variable_is_told_at_the_field(tmp_path: Path) -> None:
    """The deployed value counts."""
    text = f"{GATEWAY}          channel: ${{var.team}}\n"
    assert found(tmp_path, text) == [("BUNDLE_SPELLING", "warning", at(FIRST, 20))]


ERRORS = {
    "in development mode": (GATEWAY.replace("  ingestion:\n", "  ingestion:\n    mode: development\n"),
                            "BUNDLE_GATEWAY_IN_DEVELOPMENT"),
    "named by its id from another target": (
        GATEWAY + "  prod:\n    default: true\n    resources: {jobs: {j: {name: j, tasks: [{task_key: t, "
        "pipeline_task: {pipeline_id: '${resources.pipelines.gateway.id}'}}]}}}\n", "BUNDLE_RESOURCE_ELSEWHERE"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "condition"), ERRORS.values(), ids=ERRORS)
def test_what_the_loader_finds_first_are_errors(tmp_path: Path, text: str, condition: str) -> None:
    """A gateway in development mode, and a reference into another target's ingestion but by name or lookup."""
    with pytest.raises(UserError) as raised:
        load(tmp_path, text)
    assert (raised.value.condition, raised.value.location is not None) == (condition, True)
    assert raised.value.remedy


def test_a_finding_is_told_with_its_place_and_remedy(tmp_path: Path) -> None:
    """The whole text of one."""
    (finding,) = load(tmp_path, f"{GATEWAY}          channel: preview\n").findings
    assert finding.render() == (
        "[BUNDLE_SPELLING] warning: `channel` of pipelines.gateway is 'preview', but the service stores it as "
        f"'PREVIEW'; each deployment shows a difference.\n  at {at(FIRST, 20)}\n  -> Write 'PREVIEW'."
    )
