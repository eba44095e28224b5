"""`sluice init` writes a whole project, or nothing. tests/e2e runs the project."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner, Result

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.declare.pipeline_spec import load_spec
from framework.deploy.bundle.loading import load_bundle
from framework.deploy.bundle.pipeline_modules import module_files, native_faults
from framework.testing.databricks import as_on_databricks
from framework.testing.workspace import StandInWorkspace, serve_workspace

Sluice = Callable[..., Result]

FILES = [
    ".github/workflows/tests.yml",
    ".gitignore",
    ".gitlab-ci.yml",
    "README.md",
    "bundles/Night-Shop.yml",
    "bundles/templates/ingestion.yml.j2",
    "data/customers/changes.json",
    "data/orders/2026-01-01.json",
    "data/orders/2026-01-02.json",
    "databricks.yml",
    "pipeline.yml",
    "requirements.txt",
    "tests/test_shop.py",
    "transformations/shop.py",
]


@pytest.fixture
def project(sluice: Sluice) -> Path:
    """A new project."""
    assert sluice("init", "Night-Shop").exit_code == 0
    return Path("Night-Shop").resolve()


@pytest.fixture
def inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project is the current folder."""
    monkeypatch.chdir(project)


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def written(folder: Path) -> list[str]:
    """All files of a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_project_has_all_files(sluice: Sluice) -> None:
    """The command lists exactly the files that it wrote."""
    result = sluice("init", "Night-Shop")
    assert written(Path("Night-Shop")) == FILES
    assert result.stdout.splitlines()[: len(FILES)] == [f"Night-Shop/{path}" for path in FILES]
    assert not list(Path().glob(".*unfinished"))


def test_spec_and_module_agree_on_names(project: Path) -> None:
    """The spec loads, its schema is a valid name, and the module's configuration key is the bundle's."""
    spec = load_spec(project / "pipeline.yml")
    assert (spec.name, spec.schema) == ("Night-Shop", "night_shop")
    assert 'spark.conf.get("night_shop.data"' in (project / "transformations" / "shop.py").read_text("utf-8")
    bundle = yaml.safe_load((project / "bundles" / "Night-Shop.yml").read_text("utf-8"))
    assert bundle["targets"]["dev"] == bundle["targets"]["prod"]
    resource = bundle["targets"]["prod"]["resources"]["pipelines"]["night_shop"]
    job = bundle["targets"]["prod"]["resources"]["jobs"]["night_shop"]
    assert job["tasks"][0]["pipeline_task"]["pipeline_id"] == "${resources.pipelines.night_shop.id}"
    assert resource["configuration"] == {"night_shop.data": "${var.data}"}
    root = yaml.safe_load((project / "databricks.yml").read_text("utf-8"))
    assert (root["bundle"]["name"], root["include"]) == ("Night-Shop", ["bundles/*.yml"])
    assert root["variables"]["data"]["default"] == "/Volumes/${var.catalog}/night_shop/data"


def test_no_placeholder_of_a_template_is_left(project: Path) -> None:
    """No file but a template has a placeholder in it; Python compiles and data is JSON."""
    for path in (project / name for name in FILES if not name.endswith(".j2")):
        text = path.read_text("utf-8")
        assert "{{" not in text.replace("${{", "")  # an expression of GitHub
        assert "{%" not in text
        if path.suffix == ".py":
            compile(text, str(path), "exec")
        if path.suffix == ".json":
            assert all(json.loads(line) for line in text.splitlines())


def test_an_existing_folder_is_not_changed(sluice: Sluice, project: Path) -> None:
    """A second `init` of the name is an error and changes nothing."""
    (project / "pipeline.yml").write_text("name: mine\n", encoding="utf-8")
    result = sluice("init", "Night-Shop")
    assert result.exit_code == 2
    assert result.stderr.startswith("[PROJECT_ALREADY_EXISTS]")
    assert (project / "pipeline.yml").read_text("utf-8") == "name: mine\n"


@pytest.mark.parametrize("name", ["", "../up", "/x", "two words", "9lives", ".hidden", "a/b", "{{name}}", "é"])
def test_an_invalid_name_is_an_error(sluice: Sluice, name: str) -> None:
    """Names that could leave the folder, or can't be a schema, are refused."""
    before = written(Path())
    result = sluice("init", "--", name)
    assert result.exit_code == 2
    assert "[PROJECT_NAME_INVALID]" in result.stderr
    assert written(Path()) == before


def test_a_name_that_looks_like_an_option_is_an_error(sluice: Sluice) -> None:
    """Click's own usage error is kept."""
    assert sluice("init", "-x").exit_code == 2


@pytest.mark.parametrize(
    ("target", "name", "files", "pause_status"),
    [
        ("dev", "[dev ada] Night-Shop", "/Workspace/Users/ada@example.com/.bundle/Night-Shop/dev/files", "PAUSED"),
        ("prod", "Night-Shop", "/Workspace/Shared/.bundle/Night-Shop/prod/files", None),
    ],
)
@pytest.mark.usefixtures("inside")
def test_its_bundle_deploys_and_then_has_nothing_to_do(
    served: StandInWorkspace, target: str, name: str, files: str, pause_status: str | None
) -> None:
    """Both targets: planned, deployed with the modules and the job that runs them, and idle the second time."""
    bundles = BundleSurroundings(configure=lambda _: served.config(), clock=served.clock)
    around = Surroundings(clock=served.clock, bundles=bundles)

    def bundle(command: str) -> int:
        return CliRunner().invoke(cli, ["bundle", command, "--target", target], obj=around).exit_code

    assert [bundle("plan"), bundle("deploy"), bundle("plan")] == [2, 0, 0]
    pipeline = served.pipeline(name)
    assert pipeline.spec["root_path"] == files
    assert pipeline.spec["libraries"] == [{"glob": {"include": f"{files}/transformations/**"}}]
    assert f"{files}/transformations/shop.py" in served.files.files
    (job,) = served.jobs.by_id.values()
    assert job["settings"]["tasks"][0]["pipeline_task"]["pipeline_id"] == pipeline.pipeline_id
    assert job["settings"]["schedule"].get("pause_status") == pause_status
    writes = len(served.writes())
    assert (bundle("deploy"), len(served.writes())) == (0, writes)


def test_its_modules_have_a_native_form(project: Path) -> None:
    """The modules of a new project run on Databricks without changes."""
    bundle = load_bundle(project, target="dev", user="ada@example.com")
    assert module_files(bundle) == ("transformations/shop.py",)
    assert native_faults(bundle) == ()
    spark = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
    with as_on_databricks() as native:
        native.load(project / "transformations" / "shop.py", spark)
    named = [(each.function, dict(each.arguments).get("name") or each.decorated) for each in native.records]
    assert [f"{function} {name}" for function, name in named] == [
        "expect 'has a customer'",
        "expect_or_drop 'has an amount'",
        "table orders",
        "temporary_view customer_changes",
        "create_streaming_table 'customers'",
        "create_auto_cdc_flow None",
        "materialized_view revenue_by_city",
    ]


@pytest.mark.usefixtures("inside")
def test_the_example_of_an_ingestion_in_its_readme_works(project: Path, served: StandInWorkspace) -> None:
    """The spec that is printed there renders, has no findings, and deploys a gateway that is not part of prod."""
    around = Surroundings(
        clock=served.clock, bundles=BundleSurroundings(configure=lambda _: served.config(), clock=served.clock)
    )

    def bundle(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["bundle", *arguments], obj=around)

    spec = (project / "README.md").read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
    (project / "bundles" / "specs").mkdir()
    (project / "bundles" / "specs" / "sales.yml").write_text(spec, encoding="utf-8")
    root = project / "databricks.yml"
    root.write_text(root.read_text("utf-8").replace("# - bundles/rendered", "- bundles/rendered"), encoding="utf-8")
    assert [bundle("render").exit_code, bundle("render", "--check").exit_code] == [0, 0]
    validated = bundle("validate", "-o", "json")
    assert (json.loads(validated.stdout)["findings"], validated.exit_code) == ([], 0)
    assert [bundle("deploy", "-t", target).exit_code for target in ("ingestion", "prod")] == [0, 0]
    assert served.pipeline("sales_gateway").is_gateway
    transformation = [resource.key for resource in load_bundle(project, target="prod", user="a@b.c").resources]
    assert transformation == ["pipelines.night_shop", "jobs.night_shop"]
