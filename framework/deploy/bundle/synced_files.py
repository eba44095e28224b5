"""Files of a bundle to upload: all files below its root, filtered by Git's ignore files and by `sync`."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from framework.deploy.bundle.documents.nodes import Node
from framework.deploy.bundle.documents.paths import first_link, leads_outside
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_ALWAYS_EXCLUDED = (".git", ".databricks/", ".sluice/", ".venv/", "__pycache__/")


def synced_files(root: Path, sync: Node | None) -> tuple[str, ...]:
    """Return the files to upload, relative to the root, sorted.

    A link to a target inside the root is not uploaded, as in the Databricks CLI. A link to the outside is refused,
    unless it is ignored or excluded.

    `sync.paths` selects folders, `sync.include` adds files that Git ignores, and `sync.exclude` takes precedence over
    both. Patterns have Git's syntax and are relative to the file that contains them.

    Raises:
        UserError: BUNDLE_SYNC_OUTSIDE, BUNDLE_PATH_MISSING, BUNDLE_PATH_LINK, BUNDLE_LINK_OUTSIDE.
    """
    include = _patterns(sync, "include")
    exclude = _patterns(sync, "exclude")
    folders = _folders(root, sync)
    found = []
    for path, ignored, is_link in _entries(root):
        if (ignored and not include.match_file(path)) or exclude.match_file(path):
            continue
        if is_link:
            if any(_is_below(path, folder) for folder in folders) and leads_outside(root / path, root):
                location = SourceLocation(file=path, line=1)
                target = (root / path).readlink()
                raise UserError("BUNDLE_LINK_OUTSIDE", location=location, path=path, target=target)
        elif any(_is_below(path, folder) for folder in folders):
            found.append(path)
    return tuple(sorted(found))


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or f"{path}/".startswith(f"{folder}/")


def _patterns(sync: Node | None, key: str) -> GitIgnoreSpec:
    node = sync.get(key) if sync is not None else None
    items = node.items(f"sync.{key}") if node is not None else ()
    return GitIgnoreSpec.from_lines([_from_root(item, item.text(f"sync.{key}")) for item in items])


def _from_root(item: Node, pattern: str) -> str:
    """Return a pattern relative to the root; a pattern with a slash is relative to its file's folder."""
    folder = posixpath.dirname(item.location.file)
    plain = pattern.removeprefix("!")
    sign = pattern[: len(pattern) - len(plain)]
    if "/" not in plain.rstrip("/"):
        return f"{sign}/{folder}/**/{plain}" if folder else pattern
    path = posixpath.normpath(posixpath.join(folder, plain.lstrip("/")))
    if path.startswith(".."):
        raise UserError("BUNDLE_SYNC_OUTSIDE", location=item.location, path=pattern)
    return f"{sign}/{path}{'/' if plain.endswith('/') else ''}"


def _folders(root: Path, sync: Node | None) -> tuple[str, ...]:
    """Return the folders whose files are uploaded."""
    node = sync.get("paths") if sync is not None else None
    found = []
    for item in node.items("sync.paths") if node is not None else ():
        text = item.text("sync.paths")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(item.location.file), text))
        if path.startswith(("..", "/")):
            raise UserError("BUNDLE_SYNC_OUTSIDE", location=item.location, path=text)
        if not (root / path).exists():
            raise UserError("BUNDLE_PATH_MISSING", location=item.location, path=text, inside=path)
        link = first_link(root, path)
        if link is not None:
            raise UserError("BUNDLE_PATH_LINK", location=item.location, path=text, link=link)
        found.append(path)
    return tuple(found) or (".",)


def _entries(root: Path) -> Iterator[tuple[str, bool, bool]]:
    """Return each file and link: its path, whether Git ignores it, whether it is a link.

    The ignore files of its folder and of the parent folders apply.
    """
    never = GitIgnoreSpec.from_lines(_ALWAYS_EXCLUDED)
    rules: dict[str, GitIgnoreSpec] = {}
    for folder, names, files in os.walk(root):
        base = Path(folder).relative_to(root).as_posix()
        if ".gitignore" in files:
            rules[base] = GitIgnoreSpec.from_lines(
                (Path(folder) / ".gitignore").read_text("utf-8", "replace").splitlines()
            )
        above = [
            (folder, spec) for folder, spec in rules.items() if folder == "." or f"{base}/".startswith(f"{folder}/")
        ]
        names[:] = [name for name in sorted(names) if not never.match_file(f"{_joined(base, name)}/")]
        for name in (*sorted(files), *names):
            path, is_link = _joined(base, name), (Path(folder) / name).is_symlink()
            if (is_link or name in files) and not never.match_file(path):
                yield path, _is_ignored(path, above), is_link


def _joined(base: str, name: str) -> str:
    return name if base == "." else f"{base}/{name}"


def _is_ignored(path: str, above: list[tuple[str, GitIgnoreSpec]]) -> bool:
    """Return whether a path is ignored: the last ignore file with a matching pattern decides, the deepest is last."""
    ignored = False
    for folder, spec in above:
        decision = spec.check_file(path if folder == "." else path.removeprefix(f"{folder}/")).include
        ignored = ignored if decision is None else decision
    return ignored
