"""The demo's folder: a project that is created once and never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from framework.demo.project import pipeline_folder, prepare_folder
from framework.foundation.errors import UserError


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that was prepared with one month."""
    folder = tmp_path_factory.mktemp("home") / "demo"
    prepare_folder(folder, 1)
    return folder


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of each file by its relative path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_a_prepared_folder_is_a_project_whose_spec_names_its_data(demo: Path) -> None:
    """The pipeline's modules and spec are next to the data; the spec has the absolute path of the data."""
    spec = yaml.safe_load((demo / "pipeline.yml").read_text())
    modules = sorted(path.name for path in (demo / "transformations").iterdir())
    assert {"flights.data": str(demo / "data")} == spec["configuration"]
    assert sorted(path.name for path in pipeline_folder().glob("transformations/*.py")) == modules


def test_preparing_again_changes_no_file(demo: Path) -> None:
    """A second preparation returns the same description and writes nothing."""
    before = contents(demo)
    feed = prepare_folder(demo, 1)
    assert (1, 27_004) == (feed.months, feed.flights)
    assert before == contents(demo)


def test_a_change_to_the_pipeline_is_kept_and_a_missing_module_comes_back(demo: Path) -> None:
    """The user may change the pipeline; files that an interrupted preparation did not write are written."""
    changed, missing = demo / "transformations" / "delays.py", demo / "transformations" / "weather.py"
    original = changed.read_text()
    changed.write_text(original + "# mine\n")
    missing.unlink()
    prepare_folder(demo, 1)
    assert original + "# mine\n" == changed.read_text()
    assert (pipeline_folder() / "transformations" / "weather.py").read_text() == missing.read_text()


def test_a_demo_of_other_months_is_refused_and_left_alone(demo: Path) -> None:
    """The error has the number of months in the folder; nothing is written."""
    before = contents(demo)
    with pytest.raises(UserError) as caught:
        prepare_folder(demo, 3)
    assert "DEMO_FOLDER_TAKEN" == caught.value.condition
    assert {"folder": demo, "content": "contains a demo with 1 month(s)"} == caught.value.fields
    assert before == contents(demo)


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A folder with files that no demo made is not filled with one."""
    (tmp_path / "thesis.tex").write_text("dear")
    with pytest.raises(UserError) as caught:
        prepare_folder(tmp_path, 1)
    assert "DEMO_FOLDER_TAKEN" == caught.value.condition
    assert ["thesis.tex"] == [path.name for path in tmp_path.iterdir()]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """A file is no folder to fill."""
    (tmp_path / "demo").write_text("")
    with pytest.raises(UserError) as caught:
        prepare_folder(tmp_path / "demo", 1)
    assert "DEMO_FOLDER_TAKEN" == caught.value.condition
