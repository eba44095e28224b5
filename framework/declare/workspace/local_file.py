"""`sluice.local.yml`: the local replacements for parts of a workspace, as a frozen value.

The file is beside the spec or the bundle. Each of its keys may also be in the spec; the file has precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.declare.local_table import LocalTable
from framework.declare.runtimes import is_runtime
from framework.declare.specs import Pairs
from framework.declare.workspace.path_map import NO_PATHS, PathMap, is_prefix, path_map
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.files.storage import is_local
from framework.foundation.nearest import nearest_hint
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml

LOCAL_NAME = "sluice.local.yml"
KEYS = ("paths", "tables", "functions", "secrets", "parameters", "runtime")
"""The keys of the file, which are also valid in a spec."""

YAML = YamlFormat(
    node=YamlNode,
    unreadable="LOCAL_FILE_UNREADABLE",
    invalid="LOCAL_FILE_INVALID_YAML",
    may_be_empty=True,
    at_keys=True,
)
"""How local files are read."""
_SOURCES = ("env", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSource:
    """The source of a secret's value.

    Args:
        scope: the scope.
        key: its name in the scope.
        kind: `value`, `env` or `file`.
        text: the value, the name of an environment variable, or the path of a file.
    """

    scope: str
    key: str
    kind: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The local replacements for a pipeline's Databricks workspace; see `docs/databricks.md` for the keys."""

    paths: PathMap = NO_PATHS
    tables: tuple[LocalTable, ...] = ()
    functions: Pairs = ()
    secrets: tuple[SecretSource, ...] = ()
    parameters: Pairs = ()
    runtime: str | None = None


NO_WORKSPACE = Workspace()
"""A workspace without any replacements."""


def read_local_file(spec: Path, chosen: Path | None, document: YamlNode) -> Workspace:
    """Return the replacements in a spec and in the local file beside it.

    Args:
        spec: the spec.
        chosen: the local file; None for `sluice.local.yml` beside the spec, if it exists.
        document: the content of the spec.

    Raises:
        UserError: LOCAL_FILE_UNREADABLE, LOCAL_FILE_INVALID_YAML.
        GraphErrors: every unknown key of the file, and every invalid value in both.
    """
    beside = spec.resolve().parent / LOCAL_NAME
    file = chosen if chosen is not None else beside if beside.is_file() else None
    parts = [_Part(document, spec.resolve().parent)]
    errors: list[SluiceError] = []
    if file is not None:
        local = read_yaml(file, YAML)
        errors += _unknown_keys(local)
        parts.append(_Part(local, file.resolve().parent))
    errors += [error for part in parts for error in part.errors()]
    if errors:
        raise GraphErrors(errors)
    return Workspace(
        paths=path_map(*(part.paths() for part in parts)),
        tables=tuple({table.name: table for part in parts for table in part.tables()}.values()),
        functions=_merged(part.pairs("functions") for part in parts),
        secrets=tuple({(each.scope, each.key): each for part in parts for each in part.secrets()}.values()),
        parameters=_merged(part.pairs("parameters") for part in parts),
        runtime=next((found for part in reversed(parts) if (found := part.runtime()) is not None), None),
    )


def _unknown_keys(local: YamlNode) -> Iterator[UserError]:
    for key in local.value:
        if key not in KEYS:
            where, hint = local.location_of(key), nearest_hint(key, KEYS)
            yield UserError("LOCAL_FILE_UNEXPECTED_FIELD", location=where, field=key, hint=hint)


def _merged(parts: Iterator[Pairs]) -> Pairs:
    return tuple({key: value for pairs in parts for key, value in pairs}.items())


@dataclass(frozen=True, slots=True)
class _Part:
    """The workspace keys of one file; relative paths are relative to its folder."""

    document: YamlNode
    folder: Path

    def errors(self) -> Iterator[SluiceError]:
        """Yield the error of each invalid value."""
        for key in KEYS[:-1]:
            value = self._plain(key)
            if not isinstance(value, dict):
                yield self._wrong_type((key,), value, "a mapping")
                continue
            for name, each in value.items():
                yield from self._errors_of(key, name, each)
        runtime = self._plain("runtime")
        if not isinstance(runtime, str | int | float | dict) or isinstance(runtime, bool):
            yield self._wrong_type(("runtime",), runtime, "a text such as 15.4")
        elif runtime != {} and not is_runtime(str(runtime)):
            yield UserError("PIPELINE_SPEC_RUNTIME", location=self.document.location_of("runtime"), value=runtime)

    def paths(self) -> Mapping[str, str]:
        """The map of paths; targets are absolute."""
        return {prefix: self._absolute(target) for prefix, target in self._plain("paths").items()}

    def tables(self) -> Iterator[LocalTable]:
        """Yield the tables."""
        for name, options in self._plain("tables").items():
            pairs = {str(key): _text(value) for key, value in options.items()}
            for key in {"path", "pipeline"} & pairs.keys():
                pairs[key] = self._absolute(pairs[key])
            yield LocalTable(name=name, options=tuple(pairs.items()))

    def secrets(self) -> Iterator[SecretSource]:
        """Yield the secrets."""
        for scope, keys in self._plain("secrets").items():
            for key, value in keys.items():
                kind, text = next(iter(value.items())) if isinstance(value, dict) else ("value", value)
                text = self._absolute(text) if kind == "file" else _text(text)
                yield SecretSource(scope=scope, key=str(key), kind=kind, text=text)

    def pairs(self, key: str) -> Pairs:
        """Return the entries of a mapping of texts."""
        return tuple((str(name), _text(value)) for name, value in self._plain(key).items())

    def runtime(self) -> str | None:
        """The runtime."""
        found = self._plain("runtime")
        return None if found == {} else str(found)

    def _errors_of(self, key: str, name: str, value: object) -> Iterator[SluiceError]:
        if key in {"paths", "functions"}:
            if not isinstance(value, str) or not value:
                yield self._wrong_type((key, name), value, "a non-empty string")
            elif key == "paths" and not is_prefix(name):
                where = self.document.location_of(key, name)
                yield UserError("PATH_PREFIX_INVALID", location=where, prefix=name)
        elif key == "parameters":
            if isinstance(value, dict | list | None):
                yield self._wrong_type((key, name), value, "a string")
        elif not isinstance(value, dict):
            yield self._wrong_type((key, name), value, "a mapping")
        elif key == "secrets":
            yield from self._secret_errors(name, value)

    def _secret_errors(self, scope: str, keys: Mapping[str, Any]) -> Iterator[SluiceError]:
        for key, value in keys.items():
            source = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else None
            is_source = source is not None and source[0] in _SOURCES and isinstance(source[1], str)
            if not (is_source or isinstance(value, str | int | float)):
                where = self.document.location_of("secrets", scope, key)
                yield UserError("SECRET_ENTRY_INVALID", location=where, scope=scope, key=key)

    def _wrong_type(self, keys: tuple[str, ...], value: object, expected: str) -> UserError:
        return UserError(
            "PIPELINE_SPEC_FIELD_TYPE",
            location=self.document.location_of(*keys),
            field=".".join(keys),
            expected=expected,
            actual=type(value).__name__,
        )

    def _plain(self, key: str) -> Any:
        node = self.document.get(key)
        return {} if node is None else node.plain()

    def _absolute(self, path: str) -> str:
        return str(self.folder / path) if is_local(path) and not path.startswith("file:") else path


def _text(value: object) -> str:
    """Return a scalar as Spark's text: `true` for YAML's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)
