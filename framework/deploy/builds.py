"""Runs the build of an artifact: a shell command in its folder, bounded, its output kept for the error."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

SHELLS = ("bash", "sh")
_MOST_SECONDS = 1800
_LAST_LINES = 20
_SECRETS = ("TOKEN", "SECRET", "PASSWORD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A package that a bundle builds before it deploys.

    Args:
        folder: where its build runs.
        build: the shell command; None when there is nothing to run.
        executable: the shell.
    """

    name: str
    folder: Path
    build: str | None
    executable: str = "sh"
    location: SourceLocation | None = None


def run_build(artifact: Artifact, *, environment: Mapping[str, str]) -> str | None:
    """Run an artifact's build; None when it went well, else how it ended and the last lines that it said.

    The secrets of the workspace's sign-in are not in its environment, so that no build can print them.

    Raises:
        UserError: BUNDLE_PATH_MISSING for its folder; BUNDLE_SHELL_MISSING.
    """
    if not artifact.folder.is_dir():
        path = artifact.folder
        raise UserError("BUNDLE_PATH_MISSING", location=artifact.location, path=path, inside=path)
    shown = {name: value for name, value in environment.items() if not _is_secret(name)}
    try:
        done = subprocess.run(  # noqa: S603 - the user's own build
            [artifact.executable, "-c", f"set -e\n{artifact.build}"], cwd=artifact.folder, env=shown,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_MOST_SECONDS,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise UserError("BUNDLE_SHELL_MISSING", location=artifact.location, shell=artifact.executable) from None
    except subprocess.TimeoutExpired as error:
        return _ending(f"it took longer than {_MOST_SECONDS} seconds", error.output)
    return None if done.returncode == 0 else _ending(f"it ended with exit code {done.returncode}", done.stdout)


def _ending(how: str, output: bytes | None) -> str:
    lines = (output or b"").decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    return "\n".join([how, *(f"    {line}" for line in lines)])


def _is_secret(name: str) -> bool:
    return name.startswith(("DATABRICKS_", "ARM_")) and any(word in name for word in _SECRETS)
