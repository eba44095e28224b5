"""The bundle's files in the workspace: what changed is uploaded, what is gone is deleted, nothing from outside."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from framework.deploy.api.workspace import Workspace
from framework.foundation.errors import UserError

FileHashes = tuple[tuple[str, str], ...]
"""Hashes by name: a path below the bundle's root, or for a package its path in the workspace."""


def hash_files(root: Path, paths: Iterable[str], packages: Iterable[tuple[str, str]] = ()) -> FileHashes:
    """The files with the hash of what they hold, by name; packages are pairs of name and path below the root.

    Raises:
        UserError: DEPLOY_FILE_OUTSIDE for a file that lies outside the root, by its path or through a link.
    """
    named = {path: path for path in paths} | dict(packages)
    return tuple(
        (name, hashlib.sha256(_inside(root, path).read_bytes()).hexdigest()) for name, path in sorted(named.items())
    )


def changed_files(local: FileHashes, deployed: FileHashes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which files to upload, and which to delete."""
    before, after = dict(deployed), dict(local)
    uploads = tuple(path for path, digest in local if before.get(path) != digest)
    return uploads, tuple(sorted(set(before) - set(after)))


def place_of(folder: str, name: str) -> str:
    """Where the file of a name lies in the workspace."""
    return name if name.startswith("/") else f"{folder}/{name}"


def is_below(place: str, folders: Iterable[str]) -> bool:
    """Whether a path of the workspace lies in one of these folders: nothing else is deleted, whatever a state says."""
    plain = posixpath.normpath(place)
    return any(plain.startswith(f"{posixpath.normpath(folder)}/") for folder in folders if folder)


def upload_files(
    workspace: Workspace, root: Path, folder: str, names: Sequence[str], packages: Mapping[str, str]
) -> None:
    """Upload files: packages to where their names say, others below a folder of the workspace."""
    for parent in sorted({posixpath.dirname(place_of(folder, name)) for name in names}):
        workspace.make_folder(parent)
    for name in names:
        workspace.write_file(place_of(folder, name), _inside(root, packages.get(name, name)).read_bytes())


def _inside(root: Path, path: str) -> Path:
    whole = (root / path).resolve()
    if not whole.is_relative_to(root.resolve()) or ".." in Path(path).parts:
        raise UserError("DEPLOY_FILE_OUTSIDE", path=path, root=str(root))
    return whole
