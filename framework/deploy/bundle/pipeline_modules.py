"""Checks of the modules of a bundle's pipelines before their upload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pathspec import GitIgnoreSpec

from framework.deploy.bundle.documents.bundle import Bundle, Resource
from framework.foundation.errors import UserError
from framework.native.module_check import face_import, files_faults

_FACE = "framework/pipelines.py"


def native_faults(bundle: Bundle) -> tuple[UserError, ...]:
    """Return declarations in the bundle's pipelines that Databricks does not support, each with file and line.

    Each is a UserError: the errors of `framework.native.module_check`, and NATIVE_WHEEL_MISSING for a pipeline whose
    modules import `framework.pipelines` although neither its files nor its environment contain it.
    """
    pipelines = [resource for resource in bundle.resources if resource.kind == "pipelines"]
    missing = (fault for pipeline in pipelines for fault in _missing_wheel(bundle, pipeline))
    return (*files_faults(bundle.root / path for path in module_files(bundle)), *missing)


def module_files(bundle: Bundle, pipeline: Resource | None = None) -> tuple[str, ...]:
    """Return the uploaded files in the libraries of one pipeline, or of all; relative to the bundle's root."""
    pipelines = (pipeline,) if pipeline is not None else bundle.resources
    patterns = [
        pattern
        for resource in pipelines
        if resource.kind == "pipelines"
        for pattern in _patterns(resource.spec.as_dict(), bundle)
    ]
    chosen = GitIgnoreSpec.from_lines(patterns)
    return tuple(path for path in bundle.sync if chosen.match_file(path))


def _missing_wheel(bundle: Bundle, pipeline: Resource) -> Iterator[UserError]:
    """Return at most one fault; an environment with any dependency may contain the wheel."""
    spec = pipeline.spec.as_dict()
    folder = path_in_bundle(spec.get("root_path") or "", bundle)
    beside = folder is not None and f"{folder}{_FACE}" in bundle.sync
    if beside or (spec.get("environment") or {}).get("dependencies"):
        return
    for path in module_files(bundle, pipeline):
        location = face_import(bundle.root / path)
        if location is not None:
            yield UserError("NATIVE_WHEEL_MISSING", location=location, pipeline=pipeline.key)
            return


def _patterns(spec: dict[str, Any], bundle: Bundle) -> Iterator[str]:
    """Return the libraries that are the bundle's own files, as patterns relative to its root."""
    for library in spec.get("libraries") or ():
        named = library.get("glob", {}).get("include") or library.get("file", {}).get("path") or ""
        inside = path_in_bundle(named, bundle)
        if inside is not None:
            yield "/" + inside.removesuffix("/")


def path_in_bundle(path: str, bundle: Bundle) -> str | None:
    """Return a workspace path relative to the bundle's root, with a slash at the end; None for a path elsewhere."""
    inside = f"{path}/".removeprefix(f"{bundle.file_path.rstrip('/')}/")
    return None if inside == f"{path}/" else inside
