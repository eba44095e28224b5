"""`sluice bundle validate`, and how plan and deploy handle the lint's findings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from databricks.sdk.core import Config

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.foundation.errors import UserError
from framework.testing.workspace import Fault, StandInWorkspace, serve_workspace

Sluice = Callable[..., Result]
BUNDLE = """\
bundle: {name: sales, git: {branch: main}}
targets:
  ingestion:
    default: true
    mode: production
    workspace: {root_path: /Workspace/Shared/sales}
    resources:
      pipelines:
        gateway:
          name: gateway
          continuous: true
          channel: preview
          gateway_definition: {connection_name: c, gateway_storage_catalog: main, gateway_storage_schema: s}
  other:
    resources: {jobs: {nightly: {name: nightly, tasks: []}}}
"""
ERROR = BUNDLE.replace("channel: preview", "configuration: {c: '${bundle.git.branch}'}")


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


@pytest.fixture
def sluice(served: StandInWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    """Calls `sluice` in the bundle's folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "databricks.yml").write_text(BUNDLE, encoding="utf-8")
    bundles = BundleSurroundings(configure=lambda _: served.config(), clock=served.clock)
    around = Surroundings(clock=served.clock, bundles=bundles)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments), obj=around)


def words(text: str) -> list[list[str]]:
    """The words of each line of a table, without its rule."""
    return [line.split() for line in text.splitlines() if line and "─" not in line]


def test_validate_lists_every_target_and_tells_warnings_once(sluice: Sluice, served: StandInWorkspace) -> None:
    """Resources are on standard output, findings on standard error, 0 for warnings alone; nothing is written."""
    result = sluice("bundle", "validate")
    assert result.exit_code == 0
    assert words(result.stdout) == [
        ["target", "mode", "resource", "name"],
        ["ingestion", "production", "pipelines.gateway", "gateway"],
        ["other", "null", "jobs.nightly", "nightly"],
        ["The", "bundle", "is", "valid:", "2", "targets,", "2", "resources,", "0", "errors,", "2", "warnings."],
    ]
    assert [line for line in result.stderr.splitlines() if line.startswith("  at ")] == [
        "  at databricks.yml:10:11",
        "  at databricks.yml:12:20",
    ]
    assert [line.partition("]")[0] for line in result.stderr.splitlines() if line.startswith("[")] == [
        "[BUNDLE_DESTROY_NOT_PREVENTED",
        "[BUNDLE_SPELLING",
    ]
    assert served.writes() == []


def test_validate_tells_all_faults_of_all_targets(sluice: Sluice, tmp_path: Path) -> None:
    """One target's fault does not hide another's; the exit code is 2."""
    text = ERROR.replace("name: nightly, tasks: []", "name: '${var.nobody}'")
    (tmp_path / "databricks.yml").write_text(text, encoding="utf-8")
    result = sluice("bundle", "validate")
    assert result.exit_code == 2
    assert [line.partition(": ")[0] for line in result.stderr.splitlines() if line.startswith("[")] == [
        "[BUNDLE_DESTROY_NOT_PREVENTED] warning",
        "[BUNDLE_GATEWAY_CHANGES] error",
        "[BUNDLE_VARIABLE_UNKNOWN] error",
    ]
    only = sluice("bundle", "validate", "--target", "nobody")
    assert (only.exit_code, "[BUNDLE_TARGET_UNKNOWN] error" in only.stderr) == (2, True)


def test_validate_as_json_is_the_resolved_configuration(sluice: Sluice, tmp_path: Path) -> None:
    """Of the default target, in the shape of the CLI's, with the findings; of another one by `--target`."""
    text = BUNDLE.replace("tasks: []", "max_concurrent_runs: '${var.runs}'") + "variables: {runs: {default: 1}}\n"
    (tmp_path / "databricks.yml").write_text(text, encoding="utf-8")
    default = json.loads(sluice("bundle", "validate", "-o", "json").stdout)
    assert (default["bundle"]["target"], default["bundle"]["mode"]) == ("ingestion", "production")
    assert list(default["resources"]) == ["pipelines"]
    assert [(each["condition"], each["severity"], each["line"]) for each in default["findings"]] == [
        ("BUNDLE_DESTROY_NOT_PREVENTED", "warning", 10),
        ("BUNDLE_SPELLING", "warning", 12),
    ]
    result = sluice("bundle", "validate", "-o", "json", "-t", "other", "--var", "runs=3")
    other = json.loads(result.stdout)
    assert (result.exit_code, other["findings"]) == (0, [])
    assert other["bundle"] == {
        "environment": "other", "git": {"branch": "main"}, "name": "sales", "target": "other",
    }  # fmt: skip
    assert other["resources"] == {"jobs": {"nightly": {"max_concurrent_runs": 3, "name": "nightly"}}}
    assert other["variables"] == {"runs": {"default": 1, "value": "3"}}
    root = "/Workspace/Users/ada@example.com/.bundle/sales/other"
    assert other["workspace"]["file_path"] == f"{root}/files"


SECRET = "hunter2hunter2"  # noqa: S105 - of the test alone
SECRETS = f"""\
bundle: {{name: sales}}
variables:
  db_password: {{default: {SECRET}, description: of the database}}
  plain: {{default: shown}}
  login: {{type: complex, default: {{user: sa, password: {SECRET}}}}}
targets:
  other:
    resources:
      pipelines:
        token_refresh:
          name: refresh
          configuration: {{api_token: '${{var.db_password}}', url: 'jdbc:x;password={SECRET}', plain: '${{var.plain}}'}}
"""


def test_no_secret_value_is_in_the_resolved_configuration(sluice: Sluice, tmp_path: Path) -> None:
    """It is hidden in declarations of variables, in settings and in findings; the rest is unchanged."""
    (tmp_path / "databricks.yml").write_text(SECRETS, encoding="utf-8")
    result = sluice("bundle", "validate", "-t", "other", "-o", "json")
    told = json.loads(result.stdout)
    digest = told["variables"]["db_password"]["value"]
    assert (SECRET in result.output, digest.startswith("hidden:")) == (False, True)
    login = {"user": "sa", "password": digest}
    assert told["variables"] == {
        "db_password": {"default": digest, "value": digest, "description": "of the database"},
        "plain": {"default": "shown", "value": "shown"},
        "login": {"type": "complex", "default": login, "value": login},
    }
    assert told["resources"]["pipelines"]["token_refresh"] == {
        "name": "refresh",
        "configuration": {"api_token": digest, "url": f"jdbc:x;password={digest}", "plain": "shown"},
    }
    mistyped = SECRETS.replace("name: refresh", f"name: refresh\n          development: 'password={SECRET}'")
    (tmp_path / "databricks.yml").write_text(mistyped, encoding="utf-8")
    wrong = sluice("bundle", "validate", "-t", "other", "-o", "json")
    assert (wrong.exit_code, SECRET in wrong.output) == (2, False)
    assert "the string 'password=hidden:" in json.loads(wrong.stdout)["findings"][0]["what"]


INNOCENT_FIELDS = """\
bundle: {name: sales}
variables:
  db_password: {description: of the database}
  alias: {default: '${var.db_password}'}
  login: {type: complex, default: {user: sa, password: hunter2-in-a-map}}
targets:
  prod:
    resources:
      pipelines:
        refresh:
          name: refresh
          configuration:
            whole: '${var.db_password}'
            part: 'a-${var.db_password}-b'
            through: '${var.alias}'
            nested: '${var.login.password}'
            plain: shown
      jobs:
        nightly:
          name: nightly
          max_concurrent_runs: 2
          parameters: [{name: mode, default: '${var.db_password}'}]
"""


def test_a_secret_variable_is_hidden_under_any_name_of_a_field(
    sluice: Sluice, served: StandInWorkspace, tmp_path: Path
) -> None:
    """The service gets the value; configuration, plan and state have its digest, also that of the former value."""
    (tmp_path / "databricks.yml").write_text(INNOCENT_FIELDS, encoding="utf-8")
    results = []
    for secret in ("hunter2-first", "hunter2-second"):
        options = ("-t", "prod", "--var", f"db_password={secret}")
        results += [sluice("bundle", "validate", *options, "-o", "json"), sluice("bundle", "plan", *options)]
        results += [sluice("bundle", "plan", *options, "-o", "json"), sluice("bundle", "deploy", *options)]
        results.append(sluice("bundle", "plan", *options))
        assert served.pipeline("refresh").spec["configuration"] == {
            "whole": secret,
            "part": f"a-{secret}-b",
            "through": secret,
            "nested": "hunter2-in-a-map",
            "plain": "shown",
        }
    served.pipeline("refresh").spec["configuration"]["whole"] = "hunter2-by-hand"
    options = ("-t", "prod", "--var", "db_password=hunter2-second")
    results += [sluice("bundle", "plan", *options), sluice("bundle", "accept", "pipelines.refresh", *options)]
    results.append(sluice("bundle", "plan", *options))
    assert [result.exit_code for result in results] == [*([0, 2, 2, 0, 0] * 2), 2, 0, 0]
    state = [text for path, text in served.files.files.items() if path.endswith("sluice-state.json")]
    texts = [*(result.output for result in results), repr(state)]
    assert [text for text in texts if "hunter2" in text] == []
    configuration = json.loads(results[0].stdout)["resources"]["pipelines"]["refresh"]["configuration"]
    hidden = {key: value.startswith("hidden:") for key, value in configuration.items()}
    assert hidden == {"whole": True, "part": True, "through": True, "nested": True, "plain": False}
    changed = {
        field["path"]: (field["remote"].startswith('"hidden:'), field["wanted"].startswith('"hidden:'))
        for change in json.loads(results[7].stdout)["changes"]
        for field in change["fields"]
    }
    paths = ["configuration.part", "configuration.through", "configuration.whole", "parameters.mode.default"]
    assert changed == dict.fromkeys(sorted(paths), (True, True))


def test_validate_as_json_of_a_fault_has_no_configuration(sluice: Sluice, tmp_path: Path) -> None:
    """Only the findings, with file and line."""
    text = BUNDLE.replace("name: nightly, tasks: []", "name: '${var.nobody}'")
    (tmp_path / "databricks.yml").write_text(text, encoding="utf-8")
    result = sluice("bundle", "validate", "-t", "other", "-o", "json")
    told = json.loads(result.stdout)
    assert (result.exit_code, list(told)) == (2, ["findings"])
    assert [(each["condition"], each["line"]) for each in told["findings"]] == [("BUNDLE_VARIABLE_UNKNOWN", 15)]


def test_strict_validation_fails_by_a_warning(sluice: Sluice) -> None:
    """`--strict` is for CI."""
    codes = [sluice("bundle", "validate", *options).exit_code for options in ([], ["--strict"])]
    assert codes == [0, 2]
    assert sluice("bundle", "validate", "--strict", "-t", "other").exit_code == 0


def test_a_variable_takes_one_value(sluice: Sluice) -> None:
    """The CLI refuses a second one too, rather than to choose."""
    result = sluice("bundle", "validate", "--var", "a=1", "--var", "a=2")
    assert (result.exit_code, "BUNDLE_VARIABLE_TWICE" in result.stderr) == (2, True)


def test_a_target_of_another_workspace_is_not_deployed_here(
    sluice: Sluice, served: StandInWorkspace, tmp_path: Path
) -> None:
    """`workspace.host` names the workspace of a target; credentials of another one don't reach it."""
    elsewhere = BUNDLE.replace("workspace: {root", "workspace: {host: 'https://other.example.com/', root")
    (tmp_path / "databricks.yml").write_text(elsewhere, encoding="utf-8")
    for command in ("plan", "deploy", "guard", "status"):
        result = sluice("bundle", command)
        assert (result.exit_code, "WORKSPACE_OTHER_HOST" in result.stderr) == (2, True)
    assert served.writes() == []
    here = elsewhere.replace("https://other.example.com/", f"{served.config().host}/")
    (tmp_path / "databricks.yml").write_text(here, encoding="utf-8")
    assert sluice("bundle", "deploy").exit_code == 0


def test_the_guard_ends_with_23_wherever_it_has_no_verdict(
    sluice: Sluice, served: StandInWorkspace, tmp_path: Path
) -> None:
    """A failed call before the first gateway is read is unknown too; an invalid bundle or configuration is 2."""

    def refused(_: str | None) -> Config:
        raise ConnectionRefusedError

    def closed(_: str | None) -> Config:
        return Config(host="http://127.0.0.1:1", token="t", retry_timeout_seconds=1)  # noqa: S106 - of the test alone

    def unconfigured(_: str | None) -> Config:
        raise UserError("WORKSPACE_NOT_CONFIGURED", cause="no profile nope")

    codes = {}
    for name, configure in {"refused": refused, "closed": closed, "unconfigured": unconfigured}.items():
        around = Surroundings(bundles=BundleSurroundings(configure=configure, clock=served.clock))
        result = CliRunner().invoke(cli, ["bundle", "guard", "-t", "other"], obj=around)
        codes[name] = (result.exit_code, result.stderr.partition("]")[0].removeprefix("["), result.stdout)
    (tmp_path / "databricks.yml").write_text(BUNDLE.replace("bundle:", "bundel:", 1), encoding="utf-8")
    mistyped = sluice("bundle", "guard", "-t", "other")
    (tmp_path / "databricks.yml").write_text(BUNDLE, encoding="utf-8")
    served.fail(Fault(method="GET", path="/Me", status=403, error_code="PERMISSION_DENIED"))
    forbidden = sluice("bundle", "guard", "-t", "other")
    served.expire_token()
    expired = sluice("bundle", "guard", "-t", "other")
    named = {"mistyped": mistyped, "forbidden": forbidden, "expired": expired}
    codes |= {
        name: (result.exit_code, result.stderr.partition("]")[0].removeprefix("["), result.stdout)
        for name, result in named.items()
    }
    unknown = (23, "GUARD_STATE_UNKNOWN", "")
    assert codes == {
        "refused": unknown,
        "closed": unknown,
        "unconfigured": (2, "WORKSPACE_NOT_CONFIGURED", ""),
        "mistyped": (2, "BUNDLE_UNKNOWN_KEY", ""),
        "forbidden": unknown,
        "expired": unknown,
    }


def test_a_kind_that_sluice_does_not_deploy_stops_deploys_and_not_the_guard(
    sluice: Sluice, served: StandInWorkspace, tmp_path: Path
) -> None:
    """Another target's dashboards are no error; in the deployed target they would be omitted."""
    dashboards = "    resources: {dashboards: {d: {display_name: d}}, jobs: {nightly: {name: nightly, tasks: []}}}\n"
    other = BUNDLE.replace("    resources: {jobs: {nightly: {name: nightly, tasks: []}}}\n", dashboards)
    (tmp_path / "databricks.yml").write_text(other, encoding="utf-8")
    app = dashboards.replace("tasks: []", "description: '${resources.apps.a.id}'")
    for text in (other, other.replace(dashboards, app)):
        (tmp_path / "databricks.yml").write_text(text, encoding="utf-8")
        codes = [sluice("bundle", "guard", "-t", target).exit_code for target in ("ingestion", "other")]
        assert codes == [0, 0]
    assert sluice("bundle", "plan", "-t", "ingestion").exit_code == 2
    refused = sluice("bundle", "deploy", "-t", "other")
    assert (refused.exit_code, "BUNDLE_KIND_NOT_DEPLOYED" in refused.stderr) == (2, True)
    assert served.writes() == []


def test_an_unknown_field_of_a_gateway_stops_the_deploy(
    sluice: Sluice, served: StandInWorkspace, tmp_path: Path
) -> None:
    """The error has the nearest name and the field's line; other resources are deployed without the field."""
    (tmp_path / "databricks.yml").write_text(BUNDLE.replace("continuous:", "continous:"), encoding="utf-8")
    refused = sluice("bundle", "deploy")
    assert (refused.exit_code, served.writes()) == (2, [])
    assert "[BUNDLE_FIELD_UNKNOWN] error" in refused.stderr
    assert "Did you mean `continuous`?" in refused.stderr
    assert "  at databricks.yml:11:22" in refused.stderr.splitlines()
    (tmp_path / "databricks.yml").write_text(BUNDLE.replace("tasks: []", "task: []"), encoding="utf-8")
    deployed = sluice("bundle", "deploy", "-t", "other")
    assert (deployed.exit_code, "[BUNDLE_FIELD_UNKNOWN] warning" in deployed.stderr) == (0, True)
    (created,) = [call.body for call in served.writes() if call.path == "/api/2.2/jobs/create"]
    assert (created["name"], "task" in created) == ("nightly", False)


def test_validate_needs_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a workspace, the output names the user that it assumed."""

    def refuse(_: str | None) -> Config:
        raise UserError("WORKSPACE_NOT_CONFIGURED", cause="nothing is set")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "databricks.yml").write_text(BUNDLE, encoding="utf-8")
    around = Surroundings(bundles=BundleSurroundings(configure=refuse))
    result = CliRunner().invoke(cli, ["bundle", "validate", "-t", "other"], obj=around)
    assert (result.exit_code, "checked as somebody@example.com" in result.stderr) == (0, True)


def test_validate_tells_what_a_module_has_no_form_for_on_databricks(sluice: Sluice, tmp_path: Path) -> None:
    """A declaration that only runs here is an error of the bundle, with the module's line."""
    (tmp_path / "shop.py").write_text("import dlt\n\n\ndlt.auto_cdc_flow\n", encoding="utf-8")
    pipeline = "pipelines: {shop: {name: shop, libraries: [{file: {path: ./shop.py}}]}}"
    text = BUNDLE.replace("jobs: {nightly: {name: nightly, tasks: []}}", pipeline)
    (tmp_path / "databricks.yml").write_text(text, encoding="utf-8")
    result = sluice("bundle", "validate", "-t", "other", "-o", "json")
    (finding,) = json.loads(result.stdout)["findings"]
    assert (result.exit_code, finding["condition"], finding["line"]) == (2, "NATIVE_FUNCTION_OURS", 4)


def test_plan_and_deploy_tell_warnings_once_and_go_on(sluice: Sluice, served: StandInWorkspace) -> None:
    """They are on standard error, each once, even if the plan runs twice; the exit code is the plan's."""
    assert sluice("bundle", "plan").stderr.count("[BUNDLE_SPELLING]") == 1
    result = sluice("bundle", "deploy")
    assert (result.exit_code, result.stderr.count("[BUNDLE_SPELLING]")) == (0, 1)
    assert served.pipeline("gateway").spec["channel"] == "PREVIEW"
    assert "BUNDLE_" not in sluice("bundle", "status").stderr


def test_plan_and_deploy_refuse_what_would_restart_a_gateway_each_time(
    sluice: Sluice, served: StandInWorkspace, tmp_path: Path
) -> None:
    """2 with the finding, and no write; status and guard continue, because they change nothing."""
    (tmp_path / "databricks.yml").write_text(ERROR, encoding="utf-8")
    for command in ("plan", "deploy"):
        result = sluice("bundle", command)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.count("[BUNDLE_GATEWAY_CHANGES] error") == 1
        assert "[BUNDLE_LINT] The lint of target ingestion found 1 error;" in result.stderr
    assert served.writes() == []
    assert sluice("bundle", "status").exit_code == 0
