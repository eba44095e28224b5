"""Which spec a command finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.cli.spec_file import find_spec
from framework.foundation.errors import UserError


def test_the_nearest_spec_is_found_from_within_a_project(tmp_path: Path) -> None:
    """A spec of this folder comes before one above; one above is found from below."""
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner" / "deep"
    inner.mkdir(parents=True)
    (outer / "pipeline.yml").touch()
    assert find_spec(None, inner) == outer / "pipeline.yml"
    (inner / "spark-pipeline.yml").touch()
    assert find_spec(None, inner) == inner / "spark-pipeline.yml"


def test_our_own_spec_comes_before_sparks(tmp_path: Path) -> None:
    """A folder with both has `pipeline.yml` as its spec."""
    (tmp_path / "pipeline.yml").touch()
    (tmp_path / "spark-pipeline.yml").touch()
    assert find_spec(None, tmp_path) == tmp_path / "pipeline.yml"


def test_a_given_spec_is_taken_relative_to_the_folder(tmp_path: Path) -> None:
    """--spec is a path as the shell has it."""
    assert find_spec("other/spec.yml", tmp_path) == tmp_path / "other" / "spec.yml"
    assert find_spec("/etc/spec.yml", tmp_path) == Path("/etc/spec.yml")


def test_no_spec_anywhere_says_what_was_looked_for(tmp_path: Path) -> None:
    """Without a spec the error names the folder and what to do."""
    with pytest.raises(UserError) as caught:
        find_spec(None, tmp_path)
    assert (caught.value.condition, caught.value.fields) == ("PIPELINE_SPEC_NOT_FOUND", {"folder": tmp_path})
