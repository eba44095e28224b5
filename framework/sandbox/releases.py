"""The code of other releases, from git or from a folder; and the plan that says which flows can't continue with it."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from framework.foundation.errors import SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_hint
from framework.graph.graph import DataflowGraph
from framework.plan.steps import KeepStored, Plan, breakages, refusals

_GIT = "git:"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SandboxPlan(Plan):
    """The steps of an update of a sandbox.

    Args:
        breaks: the errors of flows that certainly can't continue, and of tables that are refused; nothing is started.
    """

    breaks: tuple[SluiceError, ...] = ()

    @classmethod
    def of(cls, plan: Plan, graph: DataflowGraph, declared: Collection[QualifiedName]) -> SandboxPlan:
        """Return a plan with its breaks.

        Args:
            plan: the plan of the selected datasets.
            graph: their graph.
            declared: all declared datasets; those that are not selected are left out of the plan.
        """
        steps = (step for step in plan.steps if not isinstance(step, KeepStored) or step.dataset not in declared)
        return cls(
            pipeline=plan.pipeline, steps=tuple(steps), fault=plan.fault, warnings=plan.warnings,
            breaks=(*refusals(graph, plan), *breakages(graph, plan)),
        )  # fmt: skip


def release_folder(where: str | Path, spec: str | None, folder: Path) -> Path:
    """Return the folder with the spec file of a release, and with its modules beside it as in the release.

    Args:
        where: `git:TAG` or any other commit, `git:TAG:folder` if the spec was in that folder of the repository then, or
            a folder.
        spec: today's spec file; None for a pipeline that was made in Python.
        folder: where the files of releases are kept.

    Raises:
        UserError: TEST_RELEASE_WITHOUT_FILE, TEST_RELEASE_NO_GIT, TEST_RELEASE_NOT_FOUND, TEST_RELEASE_WITHOUT_SPEC.
    """
    if spec is None:
        raise UserError("TEST_RELEASE_WITHOUT_FILE", release=str(where))
    present = Path(spec).resolve()
    text = str(where)
    root, below = _of_git(text, present, folder) if text.startswith(_GIT) else (Path(where).resolve(), "")
    found = (root / below).resolve()
    if not found.is_relative_to(root) or not (found / present.name).is_file():
        place = below if text.startswith(_GIT) else str(found)
        raise UserError("TEST_RELEASE_WITHOUT_SPEC", release=text, file=present.name, folder=place or ".")
    return found


def local_file(release: Path, spec: str) -> Path | None:
    """Return the file with the replacements on this machine: the release's own if git has it, else today's."""
    return next((file for file in _local_files(release, spec) if file.is_file()), None)


def _local_files(release: Path, spec: str) -> tuple[Path, ...]:
    name = "sluice.local.yml"
    return release / name, Path(spec).with_name(name)


def _of_git(where: str, spec: Path, folder: Path) -> tuple[Path, str]:
    """Extract the files of a commit, once; return their folder, and the folder of the spec in them."""
    name, _, part = where.removeprefix(_GIT).partition(":")
    repository = spec.parent
    below = part.strip("/") or _git(repository, "rev-parse", "--show-prefix").decode().strip().rstrip("/")
    commit = _commit(repository, name)
    root = folder / commit
    if not root.exists():
        top = Path(_git(repository, "rev-parse", "--show-toplevel").decode().strip())
        archive = _git(top, "archive", "--format=tar", commit)
        partial = folder / f"{commit}.partial"
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(partial, filter="data")
        partial.rename(root)
    return root, below


def _commit(repository: Path, name: str) -> str:
    """Return the commit of a tag, a branch or any other name of git.

    Raises:
        UserError: TEST_RELEASE_NOT_FOUND with the most similar tag.
    """
    done = _run(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if name and done.returncode == 0:
        return done.stdout.decode().strip()
    tags = _git(repository, "for-each-ref", "--format=%(refname:short)", "refs/tags", "refs/heads").decode().split()
    raise UserError("TEST_RELEASE_NOT_FOUND", release=name, hint=nearest_hint(name, tags), folder=str(repository))


def _git(repository: Path, *command: str) -> bytes:
    done = _run(repository, *command)
    if done.returncode:
        problem = done.stderr.decode("utf-8", "replace").strip() or f"git {command[0]} failed"
        raise UserError("TEST_RELEASE_NO_GIT", folder=str(repository), problem=problem)
    return done.stdout


def _run(repository: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - git, with names that it can't take for options
            ["git", *command], cwd=repository, stdin=subprocess.DEVNULL, capture_output=True, check=False  # noqa: S607 - git of the user
        )  # fmt: skip
    except FileNotFoundError as error:
        problem = "the program git is not installed"
        raise UserError("TEST_RELEASE_NO_GIT", folder=str(repository), problem=problem) from error
