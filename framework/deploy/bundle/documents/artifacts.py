"""Artifacts of a bundle: packages that are built before a deploy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.deploy.bundle.documents.nodes import Node
from framework.foundation.errors import OperationError, UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.secrets.secrecy import hide_in_text

_DEFAULT_BUILD = "python3 setup.py bdist_wheel"
_SHELLS = ("bash", "sh")
_MAX_SECONDS = 1800
_OUTPUT_LINES = 20
_SECRETS = ("TOKEN", "SECRET", "PASSWORD")


def read_artifacts(root: Path, artifacts: Node | None) -> Iterator[Artifact]:
    """Read the artifacts of a bundle whose references are resolved.

    Raises:
        UserError: BUNDLE_PATH_OUTSIDE; BUNDLE_SETTING_UNSUPPORTED; BUNDLE_FIELD_TYPE.
    """
    for name, node in artifacts.entries("artifacts").items() if artifacts is not None else ():
        path, executable = node.get("path"), node.get("executable")
        folder = root / Path(node.location.file).parent / (path.text("path") if path is not None else ".")
        if not folder.resolve().is_relative_to(root.resolve()):
            raise UserError("BUNDLE_PATH_OUTSIDE", location=node.location, path=folder, root=root)
        dynamic = node.get("dynamic_version")
        if dynamic is not None and dynamic.value is not False:
            field = f"artifacts.{name}.dynamic_version"
            raise UserError("BUNDLE_SETTING_UNSUPPORTED", location=dynamic.location, field=field)
        if executable is not None and executable.value not in _SHELLS:
            field = f"artifacts.{name}.executable: {executable.value}"
            raise UserError("BUNDLE_SETTING_UNSUPPORTED", location=executable.location, field=field)
        yield Artifact(
            name=name,
            folder=folder,
            build=_command(folder, node),
            executable="sh" if executable is None else str(executable.value),
            location=node.location,
        )


def build_artifacts(artifacts: Iterable[Artifact], *, environment: Mapping[str, str]) -> None:
    """Run the build of each artifact that has one.

    Raises:
        OperationError: BUNDLE_BUILD_FAILED with the last lines of its output; nothing was deployed.
    """
    for artifact in artifacts:
        failure = run_build(artifact, environment=environment) if artifact.build else None
        if failure is not None:
            raise OperationError("BUNDLE_BUILD_FAILED", location=artifact.location, name=artifact.name, cause=failure)


def _command(folder: Path, node: Node) -> str | None:
    """Return the build command: the one in the settings, else the default for a wheel with a `setup.py`."""
    build, kind = node.get("build"), node.get("type")
    if build is not None:
        return build.text("build")
    is_wheel = kind is not None and kind.value == "whl"
    return _DEFAULT_BUILD if is_wheel and (folder / "setup.py").is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A package that a bundle builds before it deploys.

    Args:
        folder: working directory of its build.
        build: shell command; None if there is nothing to build.
        executable: the shell.
    """

    name: str
    folder: Path
    build: str | None
    executable: str = "sh"
    location: SourceLocation | None = None


def run_build(artifact: Artifact, *, environment: Mapping[str, str]) -> str | None:
    """Run an artifact's build; return None on success, else the failure and the last lines of its output.

    The workspace credentials are removed from its environment, so that no build can print them.

    Raises:
        UserError: BUNDLE_PATH_MISSING for its folder; BUNDLE_SHELL_MISSING.
    """
    if not artifact.folder.is_dir():
        path = artifact.folder
        raise UserError("BUNDLE_PATH_MISSING", location=artifact.location, path=path, inside=path)
    build_environment = {name: value for name, value in environment.items() if not _is_secret(name)}
    try:
        done = subprocess.run(  # noqa: S603 - the user's own build
            [artifact.executable, "-c", f"set -e\n{artifact.build}"],
            cwd=artifact.folder,
            env=build_environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_MAX_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise UserError("BUNDLE_SHELL_MISSING", location=artifact.location, shell=artifact.executable) from None
    except subprocess.TimeoutExpired as error:
        return _failure_text(f"it took longer than {_MAX_SECONDS} seconds", error.output)
    return None if done.returncode == 0 else _failure_text(f"it ended with exit code {done.returncode}", done.stdout)


def _failure_text(how: str, output: bytes | None) -> str:
    lines = hide_in_text((output or b"").decode("utf-8", "replace")).splitlines()[-_OUTPUT_LINES:]
    return "\n".join([how, *(f"    {line}" for line in lines)])


def _is_secret(name: str) -> bool:
    return name.startswith(("DATABRICKS_", "ARM_")) and any(word in name for word in _SECRETS)
