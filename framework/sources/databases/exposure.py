"""Exposure of the passwords in `connections.yml`: access of other users, and files that Git does not ignore.

Findings of a preflight, not errors: on Windows and in CI the permissions of a file mean nothing, and a folder outside a
repository is in no danger of a commit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from framework.sources.databases.connections import FILE_NAME, has_password, read_uris
from framework.sources.databases.findings import PreflightFinding, Severity


def check_exposure(folder: Path) -> tuple[PreflightFinding, ...]:
    """Return warnings about a `connections.yml` that contains passwords; none if there is no such file.

    Args:
        folder: the folder of the spec.

    Raises:
        UserError: DATABASE_CONNECTIONS_UNREADABLE or DATABASE_CONNECTIONS_INVALID.
    """
    path = folder / FILE_NAME
    if not path.is_file() or not any(has_password(uri) for uri in read_uris(path)):
        return ()
    return tuple(_exposures(path.resolve()))


def _exposures(path: Path) -> Iterator[PreflightFinding]:
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield PreflightFinding.of(
            "DATABASE_CONNECTIONS_READABLE", Severity.WARNING, path=path, statement=f"chmod 600 '{path}'"
        )
    if not _is_ignored(path):
        yield PreflightFinding.of(
            "DATABASE_CONNECTIONS_NOT_IGNORED",
            Severity.WARNING,
            path=path,
            statement=f"echo {FILE_NAME} >> '{path.parent / '.gitignore'}'",
        )


def _is_ignored(path: Path) -> bool:
    """Return whether the rules of the repository ignore a file; also true outside a repository."""
    root = next((folder for folder in path.parents if (folder / ".git").exists()), None)
    if root is None:
        return True
    folders = [folder for folder in path.parents if folder == root or root in folder.parents]
    rules = [root / ".git" / "info" / "exclude", *(folder / ".gitignore" for folder in reversed(folders))]
    ignored = False
    for rule in rules:
        base = root if rule.name == "exclude" else rule.parent
        found = _verdict(rule, path.relative_to(base).as_posix())
        ignored = ignored if found is None else found
    return ignored


def _verdict(rules: Path, name: str) -> bool | None:
    """Return whether a file of rules ignores a path; None if it has no rule for it."""
    if not rules.is_file():
        return None
    spec = GitIgnoreSpec.from_lines(rules.read_text("utf-8", "replace").splitlines())
    return spec.check_file(name).include
