"""The bundle's files in the workspace: what changed is uploaded, what is gone is deleted, nothing from outside."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Sequence
from pathlib import Path

from framework.deploy.workspace import Workspace
from framework.foundation.errors import UserError

FileHashes = tuple[tuple[str, str], ...]


def hash_files(root: Path, paths: Iterable[str]) -> FileHashes:
    """The files with the hash of what they hold, by path.

    Raises:
        UserError: DEPLOY_FILE_OUTSIDE for a file that lies outside the root, by its path or through a link.
    """
    return tuple((path, hashlib.sha256(_inside(root, path).read_bytes()).hexdigest()) for path in sorted(set(paths)))


def changed_files(local: FileHashes, deployed: FileHashes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which files to upload, and which to delete."""
    before, after = dict(deployed), dict(local)
    uploads = tuple(path for path, digest in local if before.get(path) != digest)
    return uploads, tuple(sorted(set(before) - set(after)))


def upload_files(workspace: Workspace, root: Path, folder: str, paths: Sequence[str]) -> None:
    """Upload files below a folder of the workspace."""
    for parent in sorted({posixpath.dirname(f"{folder}/{path}") for path in paths}):
        workspace.make_folder(parent)
    for path in paths:
        workspace.write_file(f"{folder}/{path}", _inside(root, path).read_bytes())


def _inside(root: Path, path: str) -> Path:
    whole = (root / path).resolve()
    if not whole.is_relative_to(root.resolve()) or ".." in Path(path).parts:
        raise UserError("DEPLOY_FILE_OUTSIDE", path=path, root=str(root))
    return whole
