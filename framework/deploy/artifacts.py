"""Artifacts: what a bundle builds before it deploys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from framework.deploy.builds import SHELLS, Artifact, run_build
from framework.deploy.nodes import Node
from framework.foundation.errors import OperationError, UserError

_DEFAULT_BUILD = "python3 setup.py bdist_wheel"


def read_artifacts(root: Path, artifacts: Node | None) -> Iterator[Artifact]:
    """The artifacts of a bundle, references resolved.

    Raises:
        UserError: BUNDLE_PATH_OUTSIDE; BUNDLE_SETTING_UNSUPPORTED; BUNDLE_FIELD_TYPE.
    """
    for name, node in artifacts.entries("artifacts").items() if artifacts is not None else ():
        path, executable = node.get("path"), node.get("executable")
        folder = root / Path(node.place.file).parent / (path.text("path") if path is not None else ".")
        if not folder.resolve().is_relative_to(root.resolve()):
            raise UserError("BUNDLE_PATH_OUTSIDE", location=node.place, path=folder, root=root)
        dynamic = node.get("dynamic_version")
        if dynamic is not None and dynamic.value is not False:
            field = f"artifacts.{name}.dynamic_version"
            raise UserError("BUNDLE_SETTING_UNSUPPORTED", location=dynamic.place, field=field)
        if executable is not None and executable.value not in SHELLS:
            field = f"artifacts.{name}.executable: {executable.value}"
            raise UserError("BUNDLE_SETTING_UNSUPPORTED", location=executable.place, field=field)
        yield Artifact(
            name=name,
            folder=folder,
            build=_command(folder, node),
            executable="sh" if executable is None else str(executable.value),
            location=node.place,
        )


def build_artifacts(artifacts: Iterable[Artifact], *, environment: Mapping[str, str]) -> None:
    """Run the build of each artifact that has one.

    Raises:
        OperationError: BUNDLE_BUILD_FAILED with the last lines that it said; nothing was deployed.
    """
    for artifact in artifacts:
        failure = run_build(artifact, environment=environment) if artifact.build else None
        if failure is not None:
            raise OperationError("BUNDLE_BUILD_FAILED", location=artifact.location, name=artifact.name, cause=failure)


def _command(folder: Path, node: Node) -> str | None:
    """What is written; a wheel's folder with a `setup.py` is built by that when nothing is."""
    build, kind = node.get("build"), node.get("type")
    if build is not None:
        return build.text("build")
    is_wheel = kind is not None and kind.value == "whl"
    return _DEFAULT_BUILD if is_wheel and (folder / "setup.py").is_file() else None
