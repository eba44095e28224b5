"""Which files of a bundle are uploaded: all below its root, but what git ignores and what `sync` says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from framework.deploy.nodes import Node

_NEVER = (".git/", ".databricks/", ".sluice/", ".venv/", "__pycache__/")


def synced_files(root: Path, sync: Node | None) -> tuple[str, ...]:
    """The files to upload, relative to the root, sorted; links are left out.

    `sync.include` brings back what git ignores, and `sync.exclude` has the last word; both take git's patterns.
    """
    include = _patterns(sync, "include")
    exclude = _patterns(sync, "exclude")
    never = GitIgnoreSpec.from_lines(_NEVER)
    ignored = GitIgnoreSpec.from_lines(_ignore_lines(root))
    return tuple(
        sorted(
            path
            for path in _files(root, never)
            if (not ignored.match_file(path) or include.match_file(path)) and not exclude.match_file(path)
        )
    )


def _patterns(sync: Node | None, key: str) -> GitIgnoreSpec:
    node = sync.get(key) if sync is not None else None
    items = node.items(f"sync.{key}") if node is not None else ()
    return GitIgnoreSpec.from_lines([item.text(f"sync.{key}") for item in items])


def _ignore_lines(root: Path) -> list[str]:
    path = root / ".gitignore"
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _files(root: Path, never: GitIgnoreSpec) -> Iterator[str]:
    for folder, names, files in os.walk(root):
        base = Path(folder).relative_to(root)
        names[:] = [name for name in names if not never.match_file(f"{(base / name).as_posix()}/")]
        for name in files:
            if not (Path(folder) / name).is_symlink():
                yield (base / name).as_posix()
