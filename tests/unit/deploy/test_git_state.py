"""The Git state is read from git's own files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from framework.deploy.bundle.documents.context import GitState, read_git_state

URL = "https://git.example.com/sales.git"


def git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command."""
    settings = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit on branch `release/1`, and credentials in the address of its origin."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=release/1")
    git(root, "commit", "--quiet", "--allow-empty", "--message=first")
    git(root, "remote", "add", "other", "https://elsewhere.example.com/x.git")
    git(root, "remote", "add", "origin", URL.replace("https://", "https://ada:secret@"))
    return root


def test_branch_commit_and_origin_are_gits_own(repository: Path) -> None:
    """This works from a subfolder too; the URL has no credentials."""
    (repository / "bundle").mkdir()
    expected = GitState(branch="release/1", commit=git(repository, "rev-parse", "HEAD"), origin_url=URL)
    assert (read_git_state(repository), read_git_state(repository / "bundle")) == (expected, expected)


def test_packed_references_are_found(repository: Path) -> None:
    """Git packs references after a clone or a garbage collection."""
    git(repository, "pack-refs", "--all")
    assert read_git_state(repository).commit == git(repository, "rev-parse", "HEAD")


def test_a_detached_head_has_a_commit_and_no_branch(repository: Path) -> None:
    """As CI checks out."""
    git(repository, "checkout", "--quiet", "--detach")
    state = read_git_state(repository)
    assert (state.branch, state.commit) == ("", git(repository, "rev-parse", "HEAD"))


def test_a_worktree_has_its_own_branch_and_its_repositorys_origin(repository: Path, tmp_path: Path) -> None:
    """Its `.git` is a file."""
    git(repository, "worktree", "add", "--quiet", "-b", "feature", str(tmp_path / "tree"))
    commit = git(repository, "rev-parse", "feature")
    assert read_git_state(tmp_path / "tree") == GitState(branch="feature", commit=commit, origin_url=URL)


def test_a_repository_without_a_commit_has_only_its_branch(tmp_path: Path) -> None:
    """Unknown values are not invented."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    assert read_git_state(tmp_path) == GitState(branch="main")
