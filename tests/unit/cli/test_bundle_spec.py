"""`sluice bundle spec`: a pipeline of a bundle gets a `pipeline.yml`, with which it runs on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from databricks.sdk.core import Config

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.declare.modules.loader import library_files
from framework.declare.pipeline_spec import PipelineSpec, find_spec, load_spec
from framework.foundation.errors import UserError

Sluice = Callable[..., Result]
BUNDLE = """\
bundle: {name: shops}
include: [resources/*.yml]
variables:
  catalog: {default: dev}
  minimum: {default: 100}
targets:
  dev: {default: true, mode: development}
  prod:
    mode: production
    workspace: {root_path: /Workspace/Shared/shops}
    variables: {catalog: main}
"""
RESOURCES = """\
resources:
  volumes:
    landing: {catalog_name: main, schema_name: "${resources.schemas.raw.name}", name: landing}
  schemas:
    raw: {catalog_name: main, name: raw}
  pipelines:
    shop:
      name: The shop ${bundle.target}
      catalog: ${var.catalog}
      target: shop_${bundle.target}
      root_path: ../src
      serverless: false
      clusters:
        - {label: default, spark_conf: {spark.sql.session.timeZone: UTC}}
        - {label: maintenance, spark_conf: {spark.sql.ansi.enabled: "false"}}
      configuration:
        shop.minimum: ${var.minimum}
        shop.landing: ${resources.volumes.landing.id}
        shop.files: /Volumes/${resources.volumes.landing.catalog_name}/${resources.volumes.landing.schema_name}/in
        shop.login: "{{secrets/shop/login}}"
        shop.password: a1b2c3
      libraries:
        - glob: {include: ../src/transformations/**}
        - notebook: {path: ../notebooks/more.py}
        - file: {path: ../src/extra.py}
    copies:
"""
COPIES = "      ingestion_definition: {connection_name: c, objects: []}\n"
FILES = {
    "databricks.yml": BUNDLE,
    "resources/shop.yml": RESOURCES + COPIES,
    "src/transformations/orders.py": "",
    "src/extra.py": "",
    "notebooks/more.py": "# Databricks notebook source\n",
}


def _without_workspace(_: str | None) -> Config:
    raise UserError("WORKSPACE_NOT_CONFIGURED", cause="nothing is set")


@pytest.fixture
def sluice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    """Calls `sluice` in the bundle's folder, without a workspace."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    around = Surroundings(bundles=BundleSurroundings(configure=_without_workspace))
    return lambda *arguments: CliRunner().invoke(cli, list(arguments), obj=around)


def files_of(spec: PipelineSpec) -> list[str]:
    """The modules of a pipeline, relative to the bundle."""
    return [path.relative_to(Path.cwd()).as_posix() for path in library_files(spec, Path(spec.root or ""), {".py"})]


def test_the_spec_has_what_a_run_here_needs(sluice: Sluice) -> None:
    """Beside the code, so that its imports work; what only a workspace has is left out, and named.

    Fields of other resources have the values that the bundle gives them.
    """
    made = sluice("bundle", "spec")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.splitlines()[0] == "src/pipeline.yml"
    spec = load_spec(Path("src/pipeline.yml"))
    assert (spec.name, spec.catalog, spec.schema, spec.development) == ("shop", "dev", "shop_dev", True)
    assert spec.configuration == (("shop.files", "/Volumes/main/dev_somebody_raw/in"), ("shop.minimum", "100"))
    assert spec.spark_conf == (("spark.sql.session.timeZone", "UTC"),)
    assert files_of(spec) == ["src/transformations/orders.py", "notebooks/more.py", "src/extra.py"]
    left_out = [line.split()[0] for line in made.stderr.splitlines() if "left out" in line]
    assert left_out == [f"configuration.shop.{name}" for name in ("landing", "login", "password")]


def test_another_target_and_place_may_be_named(sluice: Sluice) -> None:
    """Each target has its own values; a file is never overwritten."""
    call = (
        "bundle",
        "spec",
        "pipelines.shop",
        "--target",
        "prod",
        "--file",
        "shop.yml",
        "--var",
        "minimum=7",
        "-o",
        "json",
    )
    made = sluice(*call)
    assert json.loads(made.stdout)["path"] == "shop.yml"
    spec = load_spec(Path("shop.yml"))
    assert (spec.catalog, spec.schema, spec.development) == ("main", "shop_prod", False)
    assert spec.configuration == (("shop.files", "/Volumes/main/raw/in"), ("shop.minimum", "7"))
    assert files_of(spec) == ["src/transformations/orders.py", "notebooks/more.py", "src/extra.py"]
    elsewhere = Path.cwd().parent / "shop.yml"
    assert sluice("bundle", "spec", "--file", str(elsewhere)).exit_code == 0
    assert files_of(load_spec(elsewhere)) == files_of(spec)
    again = sluice(*call)
    assert (again.exit_code, "[BUNDLE_SPEC_EXISTS]" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("edit", "arguments", "condition"),
    [
        ((COPIES, COPIES), ["nope"], "BUNDLE_PIPELINE_UNKNOWN"),
        ((COPIES, COPIES), ["shop", "--file", "nowhere/pipeline.yml"], "BUNDLE_FILE_UNREADABLE"),
        ((COPIES, COPIES), ["copies"], "BUNDLE_PIPELINE_WITHOUT_LIBRARIES"),
        ((COPIES, "      libraries: [{file: {path: ../src/extra.py}}]\n"), [], "BUNDLE_PIPELINE_UNKNOWN"),
        (("../src/transformations/**", "/Workspace/Shared/x/**"), [], "BUNDLE_LIBRARY_ELSEWHERE"),
    ],
)
def test_a_pipeline_that_cant_run_here_is_an_error(
    sluice: Sluice, edit: tuple[str, str], arguments: list[str], condition: str
) -> None:
    """Nothing is written."""
    path = Path("resources/shop.yml")
    path.write_text(path.read_text("utf-8").replace(*edit), encoding="utf-8")
    result = sluice("bundle", "spec", *arguments)
    assert (result.exit_code, f"[{condition}]" in result.stderr) == (2, True), result.stderr
    assert not list(Path.cwd().rglob("pipeline.yml"))


@pytest.mark.usefixtures("sluice")
def test_a_bundle_without_a_spec_is_recognized() -> None:
    """`sluice run` in its folder, or one below, says how to get a spec; elsewhere it does not."""
    with pytest.raises(UserError) as caught:
        find_spec(Path("src/transformations"))
    assert (caught.value.condition, "`sluice bundle spec`" in caught.value.render()) == (
        "PIPELINE_SPEC_FILE_NOT_FOUND", True,
    )  # fmt: skip
    Path("databricks.yml").unlink()
    with pytest.raises(UserError) as caught:
        find_spec(Path("src"))
    assert "databricks.yml" not in caught.value.render()
