"""The `pipeline.yml` of a bundle's pipeline, with which `sluice run` updates it on this machine."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from framework.deploy.bundle.documents.bundle import Bundle, Resource
from framework.deploy.bundle.pipeline_modules import path_in_bundle
from framework.foundation.errors import UserError
from framework.foundation.secrets.secrecy import hide_secrets

_REFERENCE = re.compile(r"\$\{resources\.([^.{}]+\.[^.{}]+)\.([^.{}]+)\}")
_DEPTH = 8
"""How often a field may itself refer to another one: more would be a cycle."""


_FILE_NAME = "pipeline.yml"
_OF_WORKSPACE = ("${", "{{")
"""Prefixes of values that only the workspace has: the id of another resource, a secret of a scope."""
_PATHS = (("glob", "include"), ("file", "path"), ("notebook", "path"))
_NOTEBOOK_FILES = (".py", ".ipynb", ".sql", ".r", ".scala")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSpec:
    """A spec to write.

    Args:
        path: its file.
        text: its content.
        left_out: settings whose values only the workspace has, or that are secret.
    """

    path: Path
    text: str
    left_out: tuple[str, ...]


def local_spec(bundle: Bundle, key: str | None, file: str | None) -> LocalSpec:
    """Return the spec of one pipeline of a bundle: its name, code, target, configuration and Spark settings.

    It is in the folder that the pipeline's modules import from (`root_path`), or in the bundle's folder.

    Args:
        bundle: the resolved target of the bundle.
        key: `flights` or `pipelines.flights`; None for the only pipeline that has libraries.
        file: the path of the spec, relative to the bundle's root; None for `pipeline.yml` in the pipeline's folder.

    Raises:
        UserError: BUNDLE_PIPELINE_UNKNOWN, BUNDLE_PIPELINE_WITHOUT_LIBRARIES, BUNDLE_LIBRARY_ELSEWHERE,
            BUNDLE_SPEC_EXISTS; BUNDLE_FILE_UNREADABLE if there is no folder for the file.
    """
    pipeline = _chosen(bundle, key)
    spec = with_declared_fields(pipeline.spec.as_dict(), bundle)
    folder = (path_in_bundle(spec.get("root_path") or "", bundle) or "").rstrip("/")
    path = bundle.root / (file or posixpath.join(folder, _FILE_NAME))
    if path.exists():
        raise UserError("BUNDLE_SPEC_EXISTS", path=path)
    if not path.parent.is_dir():
        raise UserError("BUNDLE_FILE_UNREADABLE", path=path.parent, cause="it is not a folder")
    settings, left_out = _settings(spec, bundle.secrets)
    name = pipeline.key.partition(".")[2]
    libraries = [_library(each, bundle, pipeline, path.parent) for each in spec.get("libraries") or ()]
    values = {"name": name, **settings, "libraries": libraries}
    head = f"# {pipeline.key} of databricks.yml, target {bundle.target}, for `sluice run`.\n"
    text = head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return LocalSpec(path=path, text=text, left_out=left_out)


def _chosen(bundle: Bundle, key: str | None) -> Resource:
    pipelines = {each.key: each for each in bundle.resources if each.kind == "pipelines"}
    runnable = [name for name, each in pipelines.items() if each.spec.as_dict().get("libraries")]
    wanted = [f"pipelines.{key.removeprefix('pipelines.')}"] if key is not None else runnable
    if len(wanted) != 1 or wanted[0] not in pipelines:
        found = f"no pipeline `{key}`" if key is not None else f"{len(runnable) or 'no'} pipelines with libraries"
        raise UserError(
            "BUNDLE_PIPELINE_UNKNOWN", target=bundle.target, found=found, pipelines=", ".join(runnable) or "none"
        )
    if wanted[0] not in runnable:
        raise UserError("BUNDLE_PIPELINE_WITHOUT_LIBRARIES", location=pipelines[wanted[0]].location, key=wanted[0])
    return pipelines[wanted[0]]


def _settings(spec: Mapping[str, Any], secrets: frozenset[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings that Sluice has too, and the names of those without a value here."""
    found: dict[str, Any] = {
        "catalog": spec.get("catalog"),
        "schema": spec.get("schema") or spec.get("target"),
        "continuous": spec.get("continuous"),
        "development": spec.get("development"),
    }
    maps = {"configuration": spec.get("configuration") or {}, "spark_conf": dict(_spark_settings(spec))}
    left_out = [name for name, value in found.items() if _is_unknown(value, secrets)]
    kept = {name: value for name, value in found.items() if value is not None and name not in left_out}
    for section, values in maps.items():
        unknown = [name for name, value in values.items() if _is_unknown({name: value}, secrets)]
        left_out += [f"{section}.{name}" for name in unknown]
        kept[section] = {name: _text(value) for name, value in values.items() if name not in unknown}
    return {name: value for name, value in kept.items() if value != {}}, tuple(left_out)


def _spark_settings(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the Spark settings of the cluster of updates; the maintenance cluster runs no query."""
    for cluster in spec.get("clusters") or ():
        if cluster.get("label", "default") != "maintenance":
            yield from (cluster.get("spark_conf") or {}).items()


def _is_unknown(value: Any, secrets: frozenset[str]) -> bool:
    texts = value.values() if isinstance(value, Mapping) else (value,)
    return any(isinstance(text, str) and any(mark in text for mark in _OF_WORKSPACE) for text in texts) or (
        hide_secrets(value, secrets) != value
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _library(library: Mapping[str, Any], bundle: Bundle, pipeline: Resource, folder: Path) -> dict[str, Any]:
    """Return a library with its path relative to the folder of the spec.

    Raises:
        UserError: BUNDLE_LIBRARY_ELSEWHERE.
    """
    kind, path = next(
        ((kind, library[kind][field]) for kind, field in _PATHS if library.get(kind)), ("", str(dict(library)))
    )
    inside = path_in_bundle(path, bundle) if kind else None
    if inside is None:
        raise UserError("BUNDLE_LIBRARY_ELSEWHERE", location=pipeline.location, key=pipeline.key, library=path)
    inside = inside.rstrip("/")
    if kind == "notebook":
        inside = next((inside + end for end in _NOTEBOOK_FILES if (bundle.root / (inside + end)).is_file()), inside)
    relative = Path(os.path.relpath(bundle.root / inside, folder)).as_posix()
    return {"glob": {"include": relative}} if kind == "glob" else {"file": {"path": relative}}


def with_declared_fields(value: Any, bundle: Bundle) -> Any:
    """Return a value whose references to fields that the bundle declares, such as a schema's name, are resolved.

    Fields that only a workspace has, such as ids, stay references.

    Args:
        value: a setting of a resource: a text, a list, a mapping, or any other value.
        bundle: the resolved target of the bundle.
    """
    if isinstance(value, dict):
        return {key: with_declared_fields(each, bundle) for key, each in value.items()}
    if isinstance(value, list):
        return [with_declared_fields(each, bundle) for each in value]
    if not isinstance(value, str):
        return value
    fields = {each.key: each.spec.as_dict() for each in bundle.resources} if _REFERENCE.search(value) else {}
    for _ in range(_DEPTH):
        text = _REFERENCE.sub(lambda found: _field(fields, found), value)
        if text == value:
            break
        value = text
    return value


def _field(fields: dict[str, dict[str, Any]], found: re.Match[str]) -> str:
    """The value of a field as a text; the reference itself if the bundle has no such field, or no text there."""
    value = fields.get(found[1], {}).get(found[2])
    return value if isinstance(value, str) else found[0]
