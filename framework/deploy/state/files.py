"""The bundle's files in the workspace: upload of changed files, and only of files inside the bundle's root."""

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
    """Return names and content hashes of files; packages are pairs of name and path relative to the root.

    Raises:
        UserError: DEPLOY_FILE_OUTSIDE for a file outside the root, by its path or through a link.
    """
    named = {path: path for path in paths} | dict(packages)
    return tuple(
        (name, hashlib.sha256(_inside(root, path).read_bytes()).hexdigest()) for name, path in sorted(named.items())
    )


def changed_files(local: FileHashes, deployed: FileHashes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files to upload and the files to delete."""
    before, after = dict(deployed), dict(local)
    uploads = tuple(path for path, digest in local if before.get(path) != digest)
    return uploads, tuple(sorted(set(before) - set(after)))


def workspace_path(folder: str, name: str) -> str:
    """Return the workspace path of a file."""
    return name if name.startswith("/") else f"{folder}/{name}"


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a workspace path is inside one of the folders; no other path of a state is ever deleted."""
    plain = posixpath.normpath(path)
    return any(plain.startswith(f"{posixpath.normpath(folder)}/") for folder in folders if folder)


def upload_files(
    workspace: Workspace, root: Path, folder: str, names: Sequence[str], packages: Mapping[str, str]
) -> None:
    """Upload files: packages to the path that is their name, all other files below a workspace folder."""
    for parent in sorted({posixpath.dirname(workspace_path(folder, name)) for name in names}):
        workspace.make_folder(parent)
    for name in names:
        workspace.write_file(workspace_path(folder, name), _inside(root, packages.get(name, name)).read_bytes())


def _inside(root: Path, path: str) -> Path:
    whole = (root / path).resolve()
    if not whole.is_relative_to(root.resolve()) or ".." in Path(path).parts:
        raise UserError("DEPLOY_FILE_OUTSIDE", path=path, root=str(root))
    return whole
