"""The files of a release: from git or from a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from framework.sandbox.releases import local_file, release_folder


def git(folder: Path, *command: str) -> None:
    """Run git in a folder, without the settings of the user."""
    person = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *person, *command], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A repository whose pipeline moved from `old` to `shop` between two tags."""
    repository = tmp_path / "repository"
    old = repository / "old"
    old.mkdir(parents=True)
    (old / "pipeline.yml").write_text("name: first\n")
    git(repository, "init", "-q")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "first")
    git(repository, "tag", "v1.0.0")
    git(repository, "mv", "old", "shop")
    (repository / "shop" / "pipeline.yml").write_text("name: second\n")
    git(repository, "commit", "-qam", "second")
    git(repository, "tag", "v2.0.0")
    (repository / "shop" / "pipeline.yml").write_text("name: third\n")
    return repository / "shop" / "pipeline.yml"


@pytest.mark.parametrize(
    ("where", "text"),
    [("git:v2.0.0", "name: second\n"), ("git:HEAD", "name: second\n"), ("git:v1.0.0:old", "name: first\n")],
)
def test_the_spec_of_a_release_is_that_of_its_commit(tmp_path: Path, spec: Path, where: str, text: str) -> None:
    """The working tree is not touched, and a folder names where the pipeline was then."""
    found = release_folder(where, str(spec), tmp_path / "releases")

    assert ((found / "pipeline.yml").read_text(), spec.read_text()) == (text, "name: third\n")
    assert release_folder(where, str(spec), tmp_path / "releases") == found


def test_a_folder_is_a_release(tmp_path: Path, spec: Path) -> None:
    """A copy of the code needs no git."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "pipeline.yml").write_text("name: copied\n")

    assert release_folder(copy, str(spec), tmp_path / "releases") == copy


@pytest.mark.parametrize(
    ("where", "condition", "fields"),
    [
        ("git:v1.0.1", "TEST_RELEASE_NOT_FOUND", {"hint": " Did you mean `v1.0.0`?"}),
        ("git:", "TEST_RELEASE_NOT_FOUND", {"release": ""}),
        ("git:--help", "TEST_RELEASE_NOT_FOUND", {"release": "--help"}),
        ("git:v1.0.0", "TEST_RELEASE_WITHOUT_SPEC", {"file": "pipeline.yml", "folder": "shop"}),
        ("git:v2.0.0:../..", "TEST_RELEASE_WITHOUT_SPEC", {"folder": "../.."}),
        ("elsewhere", "TEST_RELEASE_WITHOUT_SPEC", {"release": "elsewhere"}),
    ],
)
def test_a_release_that_does_not_exist_is_refused(
    tmp_path: Path, spec: Path, where: str, condition: str, fields: dict[str, str]
) -> None:
    """The error says whether the name or the folder is wrong."""
    with pytest.raises(UserError) as refused:
        release_folder(where, str(spec), tmp_path / "releases")

    assert (refused.value.condition, fields.items() <= refused.value.fields.items()) == (condition, True)


def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    """The error has the words of git."""
    with pytest.raises(UserError) as refused:
        release_folder("git:v1.0.0", str(tmp_path / "pipeline.yml"), tmp_path / "releases")

    assert refused.value.condition == "TEST_RELEASE_NO_GIT"
    assert "not a git repository" in str(refused.value.fields["problem"])


def test_a_pipeline_of_modules_in_python_has_no_releases(tmp_path: Path) -> None:
    """There are no files that a release could replace."""
    with pytest.raises(UserError) as refused:
        release_folder("git:v1.0.0", None, tmp_path)

    assert refused.value.condition == "TEST_RELEASE_WITHOUT_FILE"


def test_the_local_file_of_today_is_used_unless_git_has_one(tmp_path: Path) -> None:
    """Replacements on this machine are not part of a release, usually."""
    today, release = tmp_path / "today", tmp_path / "release"
    today.mkdir()
    release.mkdir()
    spec = str(today / "pipeline.yml")
    nothing = local_file(release, spec)
    (today / "sluice.local.yml").touch()
    present = local_file(release, spec)
    (release / "sluice.local.yml").touch()

    assert (nothing, present) == (None, today / "sluice.local.yml")
    assert local_file(release, spec) == release / "sluice.local.yml"
