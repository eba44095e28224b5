"""`sluice bundle` and `sluice run --target` on the stand-in workspace."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.deploy.bundle.documents.artifacts import Artifact
from framework.deploy.bundle.documents.bundle import Bundle
from framework.testing.workspace import Fault, StandInWorkspace, serve_workspace
from framework.testing.workspace.exchange import Request
from framework.testing.workspace.stand_in import TOKEN
from tests.support.ingestion_bundle import GATEWAY, GATEWAY_NAME, HOUR, TABLE, bundle_of, specs, with_snapshot

Sluice = Callable[..., Result]


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


@pytest.fixture
def wanted() -> dict[str, dict[str, object]]:
    """The bundle's resources, to edit before a call."""
    return specs()


@pytest.fixture
def sluice(served: StandInWorkspace, wanted: dict[str, dict[str, object]], tmp_path: Path) -> Sluice:
    """Calls `sluice` about the bundle of `wanted`, with one file to upload."""
    (tmp_path / "flights.py").write_text("x = 1\n", encoding="utf-8")

    def load(*, target: str | None, variables: Mapping[str, str], user: str, look_up: object) -> Bundle:
        assert callable(look_up)
        assert (dict(variables), user) == ({}, "ada@example.com")
        assert target in (None, "ingestion")
        return bundle_of(wanted, root=tmp_path, sync=("flights.py",))

    bundles = BundleSurroundings(load=load, configure=lambda _: served.config(), clock=served.clock)
    around = Surroundings(clock=served.clock, bundles=bundles)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments), obj=around)


def test_plan_and_deploy_end_with_the_codes_that_scripts_read(served: StandInWorkspace, sluice: Sluice) -> None:
    """2 before, 0 for the deploy, 0 after; the file is in the workspace; status lists the ids."""
    assert sluice("bundle", "plan").exit_code == 2
    assert sluice("bundle", "deploy", "--table", TABLE).exit_code == 0
    result = sluice("bundle", "plan")
    # The gateway's channel, edition and catalog came back in the service's spelling: said, and no call.
    assert (result.exit_code, "in an equivalent spelling" in result.stdout) == (0, True)
    assert served.files.files["/Workspace/Shared/.bundle/sales/ingestion/files/flights.py"] == b"x = 1\n"
    status = json.loads(sluice("bundle", "status", "-o", "json").stdout)
    assert {row["resource"] for row in status} == set(specs())
    assert sluice("bundle", "guard").exit_code == 20


def test_held_queued_overridden_refused(
    served: StandInWorkspace, sluice: Sluice, wanted: dict[str, dict[str, object]]
) -> None:
    """20 with the table's progress, 21 with --queue, 22 for a recreate, 0 with a reason; a reason is needed."""
    with_snapshot(served)
    wanted[GATEWAY]["configuration"] = {"a": "1"}
    held = sluice("bundle", "deploy")
    assert (held.exit_code, "main.staging.orders 50%" in held.stdout) == (20, True)
    assert sluice("bundle", "guard", "-o", "json").exit_code == 20
    assert sluice("bundle", "deploy", "--queue").exit_code == 21
    assert sluice("bundle", "deploy", "--override", GATEWAY).exit_code == 2
    assert served.pipeline(GATEWAY_NAME).puts == 0
    assert sluice("bundle", "deploy", "--override", f"{GATEWAY}=the source moved").exit_code == 0
    wanted[GATEWAY]["storage"] = "elsewhere"
    assert sluice("bundle", "plan").exit_code == 22


def test_destroy_asks_and_bind_adopts(served: StandInWorkspace, sluice: Sluice) -> None:
    """Without --yes nothing is deleted; an unknown id is rejected."""
    assert sluice("bundle", "deploy").exit_code == 0
    assert sluice("bundle", "destroy").exit_code == 1
    assert len(served.pipelines.by_id) == 3
    assert sluice("bundle", "bind", "pipelines.flights", "nobody").exit_code == 2
    allowed = [f"--allow-recreate={key}" for key in (GATEWAY, "pipelines.ingestion", "pipelines.flights")]
    served.pipeline(GATEWAY_NAME).cancel(served.now())
    assert sluice("bundle", "destroy", "--yes", *allowed).exit_code == 0
    assert served.pipelines.by_id == {}


def test_a_remote_run_asks_for_what_is_named_and_shows_each_flow(served: StandInWorkspace, sluice: Sluice) -> None:
    """Refresh, full refresh and reset reach the service; flows have state and rows; the exit code reports failures."""
    assert sluice("bundle", "deploy").exit_code == 0
    served.flows("flights", ("main.flights.events", 40), ("main.flights.flights", 7))
    result = sluice(
        "run", "--target", "ingestion", "--resource", "flights", "--refresh", "events", "--full-refresh", "flights",
        "--reset-checkpoint", "events_flow", "-o", "json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {
        "pipeline": "flights",
        "update_id": "update-0002",
        "state": "COMPLETED",
        "flows": [
            {"flow": "main.flights.events", "state": "COMPLETED", "rows": "40"},
            {"flow": "main.flights.flights", "state": "COMPLETED", "rows": "7"},
        ],
    }
    assert served.pipeline("flights").updates[0].asked == {
        "refresh_selection": ["events"],
        "full_refresh_selection": ["flights"],
        "reset_checkpoint_selection": ["events_flow"],
    }
    assert "flights: RUNNING" in result.stderr
    assert sluice("run", "--target", "ingestion").exit_code == 2


def test_only_a_deploy_builds_and_a_build_that_fails_ends_it(served: StandInWorkspace) -> None:
    """Plan, guard and status build nothing; the deploy fails with the build's last line before it writes."""
    artifact = Artifact(name="lib", folder=Path(), build="echo no compiler; exit 7")
    bundle = replace(bundle_of(specs()), artifacts=(artifact,))
    bundles = BundleSurroundings(load=lambda **_: bundle, configure=lambda _: served.config(), clock=served.clock)
    around = Surroundings(clock=served.clock, bundles=bundles)
    codes = [CliRunner().invoke(cli, ["bundle", name], obj=around).exit_code for name in ("plan", "guard", "status")]
    assert codes == [2, 0, 0]
    result = CliRunner().invoke(cli, ["bundle", "deploy"], obj=around)
    assert (result.exit_code, served.writes()) == (1, [])
    assert "[BUNDLE_BUILD_FAILED]" in result.stderr
    assert "exit code 7\n    no compiler" in result.stderr


def test_ctrl_c_cancels_the_update_in_the_workspace_and_is_told_as_a_local_run_tells_it(
    served: StandInWorkspace, sluice: Sluice
) -> None:
    """One call stops the update, which is followed to its end: CANCELED on both sides, exit code 130."""
    assert sluice("bundle", "deploy").exit_code == 0
    served.flows("flights", *((f"main.flights.t{number}", 1) for number in range(500)))
    original = served.answer
    looks: list[str] = []

    def answer(request: Request, token: str) -> dict[str, Any]:
        if "/updates/" in request.path:
            looks.append(request.path)
            if len(looks) == 2:
                os.kill(os.getpid(), signal.SIGINT)
        return original(request, token)

    served.answer = answer  # type: ignore[method-assign]
    result = sluice("run", "--target", "ingestion", "--resource", "flights", "-o", "json")
    assert result.exit_code == 130
    told = json.loads(result.stdout)
    (update,) = served.pipeline("flights").updates
    assert (told["state"], told["update_id"], update.state) == ("CANCELED", update.update_id, "CANCELED")
    assert "SIGINT: stopping" in result.stderr
    assert "flights: CANCELED" in result.stderr
    assert len(served.writes("/stop")) == 1


def test_the_token_is_in_nothing_that_a_deploy_leaves_behind(
    served: StandInWorkspace,
    sluice: Sluice,
    wanted: dict[str, dict[str, object]],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Output, errors, debug logs, plans, state, lock, events, tables and requests do not contain the token."""
    caplog.set_level(logging.DEBUG)
    left = [sluice("bundle", "plan", "-v", "-o", "json"), sluice("bundle", "deploy", "-v", "--table", TABLE)]
    served.flows("flights", ("main.flights.events", 40))
    left.append(sluice("run", "--target", "ingestion", "--resource", "flights", "-v"))
    wanted["pipelines.flights"]["configuration"] = {"b": "2"}
    for status, code in ((403, "PERMISSION_DENIED"), (500, "INTERNAL_ERROR"), (400, "BAD_REQUEST"), (0, "")):
        served.fail(Fault(method="PUT", status=status, error_code=code))
        left.append(sluice("bundle", "deploy", "-v"))
    served.clock.sleep(HOUR)
    served.expire_token()
    left.append(sluice("bundle", "deploy", "-v"))
    assert [result.exit_code for result in left] == [2, 0, 0, 1, 1, 1, 1, 1]
    texts = [result.output + str(result.exception) for result in left]
    texts += [caplog.text, repr(served.requests), repr(served.sql.tables), repr(served.files.files)]
    texts += [repr([each.spec for each in served.pipelines.by_id.values()]), repr(served.pipeline("flights").events)]
    texts += [file.read_text("utf-8") for file in tmp_path.rglob("*") if file.is_file()]
    assert [text for text in texts if TOKEN in text] == []


def test_a_secret_value_is_in_nothing_but_the_resource_that_needs_it(
    served: StandInWorkspace,
    sluice: Sluice,
    wanted: dict[str, dict[str, object]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Plans, results, logs, state and table report the change, but never the value; without a change, nothing."""
    caplog.set_level(logging.DEBUG)
    left = []
    for secret in ("hunter2-first", "hunter2-second"):
        wanted["pipelines.flights"]["configuration"] = {
            "source.password": secret,
            "a": "1",
            "source.url": f"jdbc:sqlserver://db;user=sa;password={secret};encrypt=true",
            "source.files": f"https://a.example.com/c?sv=1&sig={secret}",
            "source.mirror": f"postgresql://ada:{secret}@db/x",
        }
        wanted["pipelines.flights"]["description"] = f"loaded with --token {secret}"
        wanted["jobs.flights"]["parameters"] = [{"name": "api_token", "default": secret}]
        left += [sluice("bundle", "plan", "-v"), sluice("bundle", "plan", "-v", "-o", "json")]
        left += [sluice("bundle", "deploy", "-v", "--table", TABLE), sluice("bundle", "plan")]
        assert served.pipeline("flights").spec["configuration"]["source.password"] == secret
    assert [result.exit_code for result in left] == [2, 2, 0, 0, 2, 2, 0, 0]
    assert "source.password: " in left[4].stdout
    assert '"jdbc:sqlserver://db;user=sa;password=hidden:' in left[4].stdout
    texts = [result.output + str(result.exception) for result in left]
    texts += [caplog.text, repr(served.sql.tables), repr(served.files.files), repr(served.pipeline("flights").events)]
    assert [text for text in texts if "hunter2" in text] == []


def test_no_file_from_outside_is_uploaded(served: StandInWorkspace, tmp_path: Path) -> None:
    """A link to a path outside of the bundle's root is an error, and nothing is written."""
    root = tmp_path / "bundle"
    root.mkdir()
    (tmp_path / "secret").write_text("s", encoding="utf-8")
    (root / "link").symlink_to(tmp_path / "secret")
    bundles = BundleSurroundings(
        load=lambda **_: bundle_of({}, root=root, sync=("link",)),
        configure=lambda _: served.config(),
        clock=served.clock,
    )
    result = CliRunner().invoke(cli, ["bundle", "deploy"], obj=Surroundings(bundles=bundles))
    assert (result.exit_code, served.writes()) == (2, [])
    assert "[DEPLOY_FILE_OUTSIDE]" in result.stderr


def test_without_credentials_the_way_to_give_them_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One short paragraph and exit code 2, not a fault of ours."""
    for name in [name for name in os.environ if name.startswith("DATABRICKS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none"))
    result = CliRunner().invoke(cli, ["bundle", "plan"])
    assert result.exit_code == 2
    assert "[WORKSPACE_NOT_CONFIGURED] No workspace is configured: default auth" in result.stderr
    assert "DATABRICKS_HOST" in result.stderr
