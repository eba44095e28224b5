"""Packages in settings, such as `./dist/*.whl`: their files and their paths in the workspace."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.bundle.documents.paths import packages_of
from framework.foundation.errors import UserError

_PATTERN = frozenset("*?[")


def with_packages(bundle: Bundle) -> Bundle:
    """Replace the packages in settings by their workspace paths, and list the files to upload.

    A pattern is expanded to all matching files; a pattern without a match becomes one path without an upload.
    """
    remote: dict[str, tuple[str, ...]] = {}
    uploads: dict[str, str] = {}
    for _, package in _named(bundle):
        files = _files(bundle.root, package)
        remote[package] = tuple(_workspace_path(bundle, path) for path in files or [package])
        uploads |= {_workspace_path(bundle, path): path for path in files}
    resources = (
        replace(each, spec=FrozenSpec.of(_replaced(spec, remote)))
        if any(packages_of(each.kind, spec := each.spec.as_dict()))
        else each
        for each in bundle.resources
    )
    return replace(bundle, resources=tuple(resources), packages=tuple(sorted(uploads.items())))


def check_packages(bundle: Bundle) -> None:
    """Refuse a loaded bundle, before `with_packages`, if its settings name a package without a file.

    Raises:
        UserError: BUNDLE_PACKAGE_MISSING.
    """
    for resource, package in _named(bundle):
        if not _files(bundle.root, package):
            raise UserError("BUNDLE_PACKAGE_MISSING", location=resource.location, key=resource.key, package=package)


def _named(bundle: Bundle) -> Iterator[tuple[Resource, str]]:
    for resource in bundle.resources:
        for package in packages_of(resource.kind, resource.spec.as_dict()):
            yield resource, package


def _workspace_path(bundle: Bundle, path: str) -> str:
    return f"{bundle.artifact_path}/.internal/{posixpath.basename(path)}"


def _files(root: Path, package: str) -> list[str]:
    """Return the files of a package's path or pattern, relative to the root."""
    inside = package.removeprefix("./")
    if _PATTERN & set(inside):
        return sorted(path.relative_to(root).as_posix() for path in root.glob(inside) if path.is_file())
    return [inside] if (root / inside).is_file() else []


def _replaced(value: Any, remote: Mapping[str, tuple[str, ...]]) -> Any:
    """Return settings with each package replaced; an entry of a list becomes one entry for each matching file."""
    if isinstance(value, dict):
        return {key: _replaced(each, remote) for key, each in value.items()}
    if isinstance(value, list):
        return [each for entry in value for each in _entries(entry, remote)]
    return value


def _entries(entry: Any, remote: Mapping[str, tuple[str, ...]]) -> list[Any]:
    """Return the replacements of an entry of a list: `./dist/*.whl`, `{whl: ./dist/*.whl}`, or anything else."""
    if isinstance(entry, str):
        return list(remote.get(entry, (entry,)))
    if isinstance(entry, dict) and len(entry) == 1:
        ((key, text),) = entry.items()
        if isinstance(text, str) and text in remote:
            return [{key: path} for path in remote[text]]
    return [_replaced(entry, remote)]
