"""The `server.yml` of a folder: which launcher starts the updates of a pipeline, with which command line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.foundation.errors import GraphErrors, UserError
from framework.run.update.control.identity import UpdateIdentity
from framework.server.access.roles import Role
from framework.server.engines.launch import Launch
from framework.server.engines.launch_file import LauncherSettings, planned, read_launchers
from framework.server.engines.start_request import StartRequest
from framework.server.engines.templates import Filling, filled
from tests.support.served_pipelines import served
from tests.support.server_world import world_of

UPDATE = "10000000-0000-4000-8000-000000000000"
ARGV = ("python", "-m", "framework", "run", "--param=city=Bad Tölz; rm -rf /")
FILLING = Filling(argv=ARGV, update_id=UPDATE, pipeline="shop")
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"template": {"spec": {"containers": [{"args": ["{{argv}}"]}]}}},
}


def chosen(folder: Path, text: str, job: Any = None) -> LauncherSettings:
    """The launcher of the pipeline `shop` by a file."""
    (folder / "server.yml").write_text(text)
    if job is not None:
        (folder / "job.yml").write_text(json.dumps(job))
    return read_launchers(folder / "pipeline.yml", [folder]).of("shop")


def test_without_a_file_updates_run_here(tmp_path: Path) -> None:
    """The command line is the engine's."""
    found = read_launchers(tmp_path / "pipeline.yml", [tmp_path]).of("shop")
    assert (ARGV, Launch()) == found.plan(FILLING)


def test_another_master_is_an_argument(tmp_path: Path) -> None:
    """The driver runs here, so it counts as an engine of this machine."""
    text = "default: cluster\nlaunchers: {cluster: {kind: spark, master: 'spark://box:7077'}}\n"
    argv, launch = chosen(tmp_path, text).plan(FILLING)
    assert ((*ARGV, "--master=spark://box:7077"), True, "spark") == (argv, launch.is_here, launch.kind)


def test_a_command_gets_the_words_of_the_engine(tmp_path: Path) -> None:
    """A place alone is several words; inside of a text it is quoted for the shell that reads it."""
    text = (
        "pipelines: {shop: slurm}\n"
        "launchers:\n"
        "  slurm:\n"
        "    kind: command\n"
        "    command: [srun, '--job-name={{pipeline}}-{{ update_id }}', '{{argv}}', 'sluice {{arguments}}']\n"
        "    start_within_seconds: 86400\n"
    )
    argv, launch = chosen(tmp_path, text).plan(FILLING)
    assert ("srun", f"--job-name=shop-{UPDATE}", *ARGV, "sluice run '--param=city=Bad Tölz; rm -rf /'") == argv
    assert Launch(kind="command", name="slurm", start_within_seconds=86_400.0) == launch


@settings(max_examples=25, deadline=None)
@given(words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_no_value_of_a_request_is_a_command_of_a_shell(words: list[str]) -> None:
    """Whatever a parameter has, a shell that reads the text passes on the same words."""
    (text,) = filled(["printf '%s\\0' {{argv}}"], Filling(argv=tuple(words), update_id=UPDATE, pipeline="shop"))
    found = subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=True).stdout.decode()
    assert words == found.split("\0")[:-1]


def test_a_job_is_named_by_its_update_and_runs_one_pod_once(tmp_path: Path) -> None:
    """What the template says besides stays."""
    text = "default: jobs\nlaunchers: {jobs: {kind: kubernetes, template: job.yml, namespace: data, context: prod}}\n"
    job = {**JOB, "metadata": {"labels": {"team": "a"}}, "spec": {**JOB["spec"], "ttlSecondsAfterFinished": 60}}  # type: ignore[dict-item]
    argv, launch = chosen(tmp_path, text, job).plan(FILLING)
    assert ("kubectl", "--context=prod", "--namespace=data", "create", "-f", "-") == argv
    assert {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": f"sluice-{UPDATE}", "labels": {"app.kubernetes.io/managed-by": "sluice", "team": "a"},
        },
        "spec": {
            "backoffLimit": 0, "ttlSecondsAfterFinished": 60,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"args": list(ARGV)}]}},
        },
    } == json.loads(launch.manifest)  # fmt: skip
    assert f"sluice-{UPDATE}" == launch.job


def test_a_validation_runs_here(tmp_path: Path) -> None:
    """It claims no update, so nothing in the storage would tell that it has ended."""
    entry = served(tmp_path)
    (tmp_path / "server.yml").write_text("default: a\nlaunchers: {a: {kind: command, command: [srun, '{{argv}}']}}\n")
    identity = UpdateIdentity.of(update_id=UPDATE)
    plans = [
        planned([tmp_path], entry, StartRequest(body=body), identity, ARGV)[0]
        for body in ({"validate_only": True}, {})
    ]  # fmt: skip
    assert [ARGV, ("srun", *ARGV)] == plans


def test_the_nearest_file_below_a_served_folder_decides(tmp_path: Path) -> None:
    """One file may decide for many pipelines, and a file above the served folder decides for none."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    spec = tmp_path / "a" / "b" / "pipeline.yml"
    for folder, name in ((tmp_path, "top"), (tmp_path / "a", "middle")):
        text = f"default: {name}\nlaunchers: {{{name}: {{kind: spark, master: local}}}}\n"
        (folder / "server.yml").write_text(text)
    assert "middle" == read_launchers(spec, [tmp_path]).of("shop").name
    assert "local" == read_launchers(spec, [tmp_path / "a" / "b"]).of("shop").name
    (tmp_path / "a" / "server.yml").unlink()
    assert "top" == read_launchers(spec, [tmp_path]).of("shop").name


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("colour: red\n", 1, "`colour`: it is not a setting."),
        ("default: kluster\nlaunchers: {cluster: {kind: spark, master: m}}\n", 1,
         "`default`: `kluster` is not one of the launchers. Did you mean `cluster`?"),
        ("launchers:\n  a: {kind: nomad}\n", 2,
         "`launchers.a`: it is a mapping whose `kind` is one of spark, command, kubernetes."),
        ("launchers:\n  local: {kind: spark, master: m}\n", 2,
         "`launchers.local`: a name is one line, and `local` is always this machine."),
        ("launchers:\n  a:\n    kind: spark\n    conf: {}\n    master: m\n", 4,
         "`launchers.a.conf`: it is not a setting."),
        ("launchers:\n  a:\n    kind: command\n    command: ssh box\n", 4,
         "`launchers.a.command`: `command` is a list of texts: the program and its arguments."),
        ("launchers:\n  a:\n    kind: command\n    command: [srun, '{{argvs}}']\n", 4,
         ("`launchers.a.command`: `{{argvs}}` is not one of `{{argv}}`, `{{arguments}}`, `{{update_id}}`, "
          "`{{pipeline}}`.")),
        ("launchers:\n  a:\n    kind: command\n    command: [srun, '{{update_id}}']\n", 4,
         "`launchers.a.command`: it has neither `{{argv}}` nor `{{arguments}}`, so no update would start."),
        ("launchers:\n  a:\n    kind: command\n    command: [/usr/bin/ssh, box, '{{argv}}']\n", 4,
         ("`launchers.a.command`: a shell reads what ssh is given: write one text, such as `exec {{argv}}`, which is "
          "then quoted.")),
        ("launchers:\n  a:\n    kind: command\n    command: [a, '{{argv}}']\n    start_within_seconds: 0\n", 5,
         "`launchers.a.start_within_seconds`: it is not a number of seconds from 1 to a week."),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    """What would be ignored is an error."""
    with pytest.raises(GraphErrors) as refused:
        chosen(tmp_path, text)
    (error,) = refused.value.errors
    assert ("SERVER_FILE_INVALID", str(tmp_path / "server.yml"), line) == (
        error.condition, error.location and error.location.file, error.location and error.location.line,
    )  # fmt: skip
    assert problem == error.what


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": "CronJob"}, "it is not a Job of batch/v1."),
        ({"spec": {}}, "a Job has `spec.template.spec`."),
        ({"metadata": {"namespace": "a"}}, "the namespace is a setting of the launcher: `namespace`."),
        ({"metadata": {"name": "shop"}}, "the name of a Job has `{{update_id}}`, so that no other update has it."),
        ({"spec": {"backoffLimit": 3, **JOB["spec"]}},  # type: ignore[dict-item]
         "a Job runs one pod, once: the id of an update is used once. Leave out what says otherwise."),
        ({"spec": {"template": {"spec": {"containers": [{"args": ["sluice"]}]}}}},
         "it has neither `{{argv}}` nor `{{arguments}}`, so no update would start."),
    ],
)  # fmt: skip
def test_a_template_that_is_no_job_of_one_update_is_refused(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    """Its place is that of the setting that names it."""
    text = "launchers:\n  jobs:\n    kind: kubernetes\n    template: job.yml\n"
    with pytest.raises(GraphErrors) as refused:
        chosen(tmp_path, text, {**JOB, **change})
    (error,) = refused.value.errors
    assert (f"`launchers.jobs.template`: job.yml: {problem}", 4) == (error.what, error.location and error.location.line)


def test_a_template_that_is_missing_is_an_error_with_its_path(tmp_path: Path) -> None:
    """The path is relative to the file."""
    with pytest.raises(GraphErrors) as refused:
        chosen(tmp_path, "launchers:\n  jobs:\n    kind: kubernetes\n    template: job.yml\n")
    (error,) = refused.value.errors
    assert ("SERVER_FILE_UNREADABLE", f"The file {tmp_path / 'job.yml'} can't be read: No such file or directory.") == (
        error.condition,
        error.what,
    )


def test_a_wrong_file_starts_nothing_and_is_shown(tmp_path: Path) -> None:
    """A request is refused with the place in the file; who may see the pipeline sees its launcher, not its command."""
    entry = served(tmp_path / "shop")
    file = tmp_path / "shop" / "server.yml"
    file.write_text("default: other\nlaunchers: {other: {kind: command, command: [srun, '{{argv}}', hidden-host]}}\n")
    with world_of(tmp_path) as world:
        shown = world.ask("GET", "/launchers", role=Role.VIEW)
        assert {
            "launchers": [{
                "pipeline_id": entry.pipeline_id, "pipeline": "shop", "name": "other", "kind": "command",
                "file": str(file), "fault": None,
            }]
        } == shown.json()  # fmt: skip
        assert "hidden-host" not in world.ask("GET", "/pipelines/shop").text
        file.write_text("defaults: other\n")
        refused = world.ask("POST", "/pipelines/shop/updates", {})
        found = world.get("/pipelines/shop")["launcher"]
    what = f"It is unknown where updates of pipeline shop run. {file}:1: `defaults`: it is not a setting."
    hint = " Did you mean `default`?"
    assert (400, what + hint, "SERVE_LAUNCHER_UNKNOWN") == (
        refused.status_code, refused.json()["message"], refused.json()["details"][0]["condition"],
    )  # fmt: skip
    assert (None, what + hint, str(file)) == (found["kind"], found["fault"]["what"], found["file"])
    assert [] == [*(tmp_path / "shop" / ".sluice" / "shop" / "runs").glob("*.json")]


def test_the_examples_of_the_page_start_an_update(tmp_path: Path) -> None:
    """docs/launchers.md: each of its launchers is usable, and quotes for the shell that reads the text."""
    page = (Path(__file__).parents[3] / "docs" / "launchers.md").read_text("utf-8")
    server, job = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "server.yml").write_text(server)
    (tmp_path / "job.yml").write_text(job)
    found = read_launchers(tmp_path / "pipeline.yml", [tmp_path])
    plans = {name: found.of(name).plan(FILLING) for name in ("other", "shop", "flights", "bank", "crm")}
    quoted = "run '--param=city=Bad Tölz; rm -rf /'"
    assert {
        "other": ARGV,
        "shop": (*ARGV, "--master=spark://spark-master:7077"),
        "flights": ("ssh", "worker-1", f"exec /opt/sluice/bin/sluice {quoted}"),
        "bank": ("sbatch", f"--job-name=sluice-{UPDATE}", f"--wrap=exec python -m framework {quoted}"),
        "crm": ("kubectl", "--context=production", "--namespace=data", "create", "-f", "-"),
    } == {name: argv for name, (argv, _) in plans.items()}
    (container,) = json.loads(plans["crm"][1].manifest)["spec"]["template"]["spec"]["containers"]
    assert (["sluice"], [*ARGV[3:]]) == (container["command"], container["args"])


def test_a_file_that_is_no_yaml_is_an_error(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(UserError) as refused:
        chosen(tmp_path, "launchers: [")
    assert "SERVER_FILE_INVALID_YAML" == refused.value.condition
