"""State of the bundle's Git repository, read from the files in `.git`; the values of `${bundle.git.*}`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_URL = re.compile(r"^\s*url\s*=\s*(\S+)")
_CREDENTIALS = re.compile(r"^(\w+://)[^/@]*@")
_MAX_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """Checked-out state; a field is empty if unknown, such as the branch of a detached head."""

    branch: str = ""
    commit: str = ""
    origin_url: str = ""


def read_git_state(root: Path) -> GitState:
    """Read the state of the repository that contains a folder; an empty state without a repository."""
    own = _git_folder(root)
    if own is None:
        return GitState()
    common = own / _read(own / "commondir").strip()
    head = _read(own / "HEAD").strip()
    reference = head.removeprefix("ref: ")
    if reference == head:
        return GitState(commit=head, origin_url=_origin(common))
    commit = _read(own / reference).strip() or _read(common / reference).strip() or _packed(common, reference)
    return GitState(branch=reference.removeprefix("refs/heads/"), commit=commit, origin_url=_origin(common))


def _git_folder(root: Path) -> Path | None:
    """Return the folder of Git's files; in a worktree, `.git` is a file that names it."""
    for folder in (root.resolve(), *root.resolve().parents):
        found = folder / ".git"
        if found.is_dir():
            return found
        if found.is_file():
            return folder / _read(found).strip().removeprefix("gitdir: ")
    return None


def _origin(common: Path) -> str:
    """Return the URL of `origin` without credentials."""
    inside = False
    for line in _read(common / "config").splitlines():
        if line.strip().startswith("["):
            inside = line.strip() == '[remote "origin"]'
        elif inside and (match := _URL.match(line)):
            return _CREDENTIALS.sub(r"\1", match[1])
    return ""


def _packed(common: Path, reference: str) -> str:
    return next((commit for commit, name in _pairs(common / "packed-refs") if name == reference), "")


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    for line in _read(path).splitlines():
        commit, _, name = line.partition(" ")
        yield commit, name.strip()


def _read(path: Path) -> str:
    """Return the text of a file; empty if it is missing, unreadable or too large."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
