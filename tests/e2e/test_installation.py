"""An installation outside of this repository, as in README.md, is complete."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pyspark

from tests.support.sources import ROOT

LOOK = """
import pathlib, framework
from framework import Pipeline, pipelines
print(pathlib.Path(framework.__file__).parent)
print(Pipeline(name="shop", modules=[lambda: None]))
"""


def test_a_wheel_of_the_checkout_works_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """`framework` and `Pipeline` are imported from there, and its `sluice` begins a project from its templates."""
    home = tmp_path / "environment"
    venv.create(home)
    python = home / "bin" / "python"
    packages = next((home / "lib").glob("python*")) / "site-packages"
    # What Sluice depends on is that of the environment of the tests: an installation of Spark takes a minute.
    (packages / "dependencies.pth").write_text(str(Path(pyspark.__file__).parents[1]), "utf-8")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)], tmp_path)
    wheel = next(tmp_path.glob("sluice-*.whl"))
    run([*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], tmp_path)
    assert run([str(python), "-c", LOOK], tmp_path).splitlines() == [
        str(packages / "framework"),
        "Pipeline(name='shop', storage='.sluice/shop')",
    ]
    run([str(home / "bin" / "sluice"), "init", "shop"], tmp_path)
    files = {
        file.relative_to(tmp_path / "shop").as_posix() for file in (tmp_path / "shop").rglob("*") if file.is_file()
    }
    assert files >= {"pipeline.yml", "transformations/shop.py", "bundles/templates/ingestion.yml.j2"}
    shipped = {file.name for file in (packages / "framework").rglob("*") if file.suffix in {".properties", ".yml"}}
    assert shipped >= {"log4j2-quiet.properties", "pipeline.yml"}


def run(command: list[str], folder: Path) -> str:
    """Return the output of a command that succeeds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
