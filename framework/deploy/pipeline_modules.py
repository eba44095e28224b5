"""The modules of a bundle's pipelines, checked before they are uploaded."""

from __future__ import annotations

from collections.abc import Iterator

from pathspec import GitIgnoreSpec

from framework.deploy.bundle import Bundle, Resource
from framework.foundation.errors import UserError
from framework.native.module_check import files_faults


def native_faults(bundle: Bundle) -> tuple[UserError, ...]:
    """What the modules of the bundle's pipelines declare that Databricks has no form for, each with file and line."""
    return files_faults(bundle.root / path for path in module_files(bundle))


def module_files(bundle: Bundle) -> tuple[str, ...]:
    """The uploaded files that the libraries of the bundle's pipelines name, relative to its root."""
    patterns = [
        pattern
        for resource in bundle.resources
        if resource.kind == "pipelines"
        for pattern in _patterns(resource, f"{bundle.file_path.rstrip('/')}/")
    ]
    chosen = GitIgnoreSpec.from_lines(patterns)
    return tuple(path for path in bundle.sync if chosen.match_file(path))


def _patterns(resource: Resource, file_path: str) -> Iterator[str]:
    """What the pipeline's libraries name of the bundle's own files, as patterns from its root."""
    for library in resource.spec.as_dict().get("libraries", ()):
        named = library.get("glob", {}).get("include") or library.get("file", {}).get("path") or ""
        if named.startswith(file_path):
            yield "/" + named.removeprefix(file_path)
