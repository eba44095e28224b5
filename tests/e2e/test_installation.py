"""An installation outside of this repository, as in README.md, is complete: without extras, and with each alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.sources import ROOT

# Each extra, and the modules that come with it.
EXTRAS = {
    "": (),
    "postgres": ("psycopg2", "adbc_driver_postgresql"),
    "mysql": ("pymysql", "connectorx"),
    "sqlserver": ("mssql_python",),
    "keyring": ("keyring",),
    "demo": ("psycopg2", "adbc_driver_postgresql"),
}
OF_EXTRAS = sorted({module for modules in EXTRAS.values() for module in modules})
# Imports every module but those of the folders of engines, and test suites.
IMPORT_ALL = """
import importlib, pathlib, sys, framework
own = tuple("framework.sources.databases." + engine for engine in ("mysql", "postgres", "sqlserver"))
root = pathlib.Path(framework.__file__).parent
parts_of_projects = {{"templates", "transformations"}}
for file in sorted(root.rglob("*.py")):
    if "import pytest" in file.read_text("utf-8") or file.is_relative_to(root / "notebook"):  # IPython loads these
        continue
    module = ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    if not module.startswith(own) and not module.endswith("__main__") and not parts_of_projects & {{*file.parts}}:
        importlib.import_module(module)
print(root, *(name for name in {of_extras!r} if name in sys.modules))
"""
FIND_ALL = """
import importlib.util
print(*(name for name in {of_extras!r} if importlib.util.find_spec(name)))
"""
SCRIPT = """
from framework import Pipeline, pipelines as dp

def shop():
    @dp.materialized_view
    def orders():
        return spark.sql("SELECT * FROM VALUES (1, 'Oslo', 20), (2, 'Bern', 12) AS o (id, city, amount)")

pipeline = Pipeline(name="script", modules=[shop], storage="script-storage")
assert pipeline.run().state.value == "COMPLETED"
print(sorted(tuple(row) for row in pipeline.table("orders").collect()))
pipeline.close()
"""
NOTEBOOK = """{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, "source":
["from framework import pipelines as dp\\n", "@dp.materialized_view\\n", "def of_notebook():\\n",
"    return spark.range(3)\\n"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"""
COPY = """
from framework import pipelines as dp

dp.ingest_database(
    name="bank", connection="bank",
    objects=[{"schema": {"source_schema": "public", "destination_catalog": "main", "destination_schema": "bank"}}],
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A virtual environment with the wheel, and with what the wheel requires and nothing else."""

    home: Path
    folder: Path
    runtime: Path

    @property
    def python(self) -> str:
        """The program of the environment."""
        return str(self.home / "bin" / "python")

    def sluice(self, *words: str) -> str:
        """Return the output of a command of `sluice` that succeeds."""
        return self.run(str(self.home / "bin" / "sluice"), *words)

    def run(self, *command: str) -> str:
        """Return the output of a command that succeeds."""
        done = self.finished(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def finished(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command that sees nothing of the environment of the tests."""
        left_out = {"PYTHONPATH", "VIRTUAL_ENV", "SLUICE_SESSION"}
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment |= {"XDG_RUNTIME_DIR": str(self.runtime)}
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *build], check=True)
    return next(folder.glob("sluice_spark-*.whl"))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A private folder for the socket of a session, whose path is limited to some 100 characters."""
    with tempfile.TemporaryDirectory(prefix="sl") as folder:
        yield Path(folder)


def installed(wheel: Path, extra: str, folder: Path, runtime: Path) -> Installation:
    """Install the wheel with one extra.

    What it requires is linked from the environment of the tests, one distribution at a time: an installation of Spark
    takes a minute.
    """
    home = folder / "environment"
    venv.create(home)
    installation = Installation(home=home, folder=folder, runtime=runtime)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", installation.python]
    installation.run(*pip, "install", "--no-deps", "--no-index", str(wheel))
    packages = next((home / "lib").glob("python*")) / "site-packages"
    own = next(packages.glob("sluice_spark-*.dist-info"))
    for each in required(PathDistribution(own), extra):
        link_files(each, packages)
    return installation


def required(first: Distribution, extra: str) -> list[Distribution]:
    """Return the distributions that one with this extra requires, itself not included."""
    found: dict[str, Distribution] = {}
    waiting = [(first, extra)]
    while waiting:
        current, wanted = waiting.pop()
        for text in current.requires or ():
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": wanted}):
                continue
            name = canonicalize_name(requirement.name)
            if name == canonicalize_name(first.metadata["Name"]):
                waiting += [(first, each) for each in requirement.extras]
            elif name not in found:
                found[name] = distribution(name)
                waiting += [(found[name], each) for each in ("", *requirement.extras)]
    return list(found.values())


def link_files(installed_one: Distribution, packages: Path) -> None:
    """Link the files and folders that a distribution has at the top of `site-packages`."""
    for top in top_names(installed_one.files or ()):
        source, link = Path(str(installed_one.locate_file(top))), packages / top
        if not link.exists():
            link.symlink_to(source)


def top_names(files: Iterable[object]) -> set[str]:
    """Return the first parts of paths below `site-packages`."""
    tops = {str(file).split("/", 1)[0] for file in files}
    return tops - {"..", "__pycache__"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_module_loads_and_loads_no_driver(wheel: Path, tmp_path: Path, short_folder: Path, extra: str) -> None:
    """No import outside of an engine's own folder needs an extra, or loads a driver that is installed."""
    installation = installed(wheel, extra, tmp_path, short_folder)
    place, *loaded = installation.run(installation.python, "-c", IMPORT_ALL.format(of_extras=OF_EXTRAS)).split()
    assert Path(place).is_relative_to(installation.home)
    assert loaded == []
    assert installation.run(installation.python, "-c", FIND_ALL.format(of_extras=OF_EXTRAS)).split() == [
        name for name in OF_EXTRAS if name in EXTRAS[extra]
    ]


def test_a_wheel_without_extras_works(wheel: Path, tmp_path: Path, short_folder: Path) -> None:
    """A new project, a notebook as a library and a script run; only a pipeline that reads a database needs a driver."""
    home = installed(wheel, "", tmp_path, short_folder)
    assert home.run(home.python, "-c", SCRIPT).splitlines() == ["[(1, 'Oslo', 20), (2, 'Bern', 12)]"]
    home.sluice("init", "shop")
    shop = Installation(home=home.home, folder=tmp_path / "shop", runtime=short_folder)
    files = {file.relative_to(shop.folder).as_posix() for file in shop.folder.rglob("*") if file.is_file()}
    assert files >= {"pipeline.yml", "transformations/shop.py", "bundles/templates/ingestion.yml.j2"}
    (shop.folder / "transformations" / "notebook.ipynb").write_text(NOTEBOOK, "utf-8")
    shop.sluice("session", "start", "--master", "local[2]")
    try:
        spark = ("--master", "local[2]")
        shop.sluice("validate", *spark)
        assert "of_notebook" in shop.sluice("plan", *spark)
        shop.sluice("run", *spark)
        rows = json.loads(shop.sluice("show", "of_notebook", "-o", "json", *spark))
        assert sorted(row["id"] for row in rows) == [0, 1, 2]
        assert "of_notebook" in shop.sluice("graph", "--format", "mermaid", *spark)
        assert "COMPLETED" in shop.sluice("events", "--last", "5")
        shop.sluice("doctor", *spark)
        (shop.folder / "transformations" / "copy.py").write_text(COPY, "utf-8")
        refused = {}
        for engine in ("postgresql", "mysql", "mariadb", "sqlserver"):
            (shop.folder / "connections.yml").write_text(f"bank: {engine}://nobody@127.0.0.1:1/bank\n", "utf-8")
            refused[engine] = shop.finished(str(home.home / "bin" / "sluice"), "validate", *spark)
    finally:
        shop.sluice("session", "stop")
    extras = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql", "sqlserver": "sqlserver"}
    for engine, extra in extras.items():
        assert refused[engine].returncode == 2
        assert "[DRIVER_NOT_INSTALLED]" in refused[engine].stderr
        assert f"pip install 'sluice-spark[{extra}]'" in refused[engine].stderr
