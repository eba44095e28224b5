"""Paths in calls of Spark's readers and writers: rewrites mapped paths for Spark, and reports paths that don't exist.

Spark reads a mapped path by its URI (`mapped_files`). A path without a scheme, such as `/Volumes/x`, is replaced with
its URI in the call, as Databricks shows it. A workspace path that no entry of `paths` covers is an error with its line.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from framework.declare.session.patches import Patch, Patches
from framework.declare.workspace.given_reads import delta_table_patches, read_given, read_given_table, written_path
from framework.declare.workspace.isolated_writes import isolated_write_patches
from framework.declare.workspace.path_map import MAPPED, ROOTS, is_below, is_of_workspace
from framework.declare.workspace.surroundings import Surroundings, found_inputs, found_surroundings
from framework.foundation.errors import UserError
from framework.foundation.files.file_systems import file_system_advice
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMATS = ("json", "csv", "parquet", "text", "orc", "xml")
_GLOB = frozenset("*?[{")
_OF_OPTIONS = ("path", "location", "destination")
"""Suffixes of the names of options that have paths as values."""
_HAS_PATH = "_sluice_has_path"
"""The attribute of a writer in a sandbox whose path is an option."""


def spark_paths() -> AbstractContextManager[None]:
    """Make readers and writers in the block's own thread resolve the paths of the workspace."""
    return _PATCHES.installed()


def spelled_path(path: Any) -> Any:
    """Return a path as Spark must read it, or each path of a list; other values are unchanged.

    Raises:
        UserError: FILE_SYSTEM_MISSING for a workspace path that the map does not cover.
    """
    around = found_surroundings()
    if around is None:
        return path
    if isinstance(path, list | tuple):
        return type(path)(spelled_path(each) for each in path)
    if not isinstance(path, str):
        return path
    found = around.paths.spelled(path)
    if found is not None:
        return found
    problem = _problem(around, path)
    if problem is not None:
        raise UserError(
            "FILE_SYSTEM_MISSING",
            location=caller_location(),
            path=path,
            problem=problem,
            advice=file_system_advice(path),
        )
    return path


def located(path: str | None) -> str | None:
    """Return the place of a table whose path is in code: the target in the map, for Spark and Python alike.

    Raises:
        UserError: FILE_SYSTEM_MISSING for a workspace path that the map does not cover.
    """
    around = found_surroundings()
    if around is None or path is None:
        return path
    target = around.paths.target(path)
    if target is None:
        spelled_path(path)
    return path if target is None else target


def spelled_options(options: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return options with their mapped paths replaced; the path itself is checked, too."""
    return {key: _spelled_option(key, value) for key, value in options}


def _spelled_option(key: Any, value: Any) -> Any:
    around = found_surroundings()
    if around is None or not isinstance(key, str) or not isinstance(value, str):
        return value
    lower = key.lower()
    if lower == "path":
        return value if around.inputs is not None and around.paths.spelled(value) is None else spelled_path(value)
    return around.paths.spelled(value) or value if lower.endswith(_OF_OPTIONS) else value


def _problem(around: Surroundings, path: str) -> str | None:
    """Return why Spark can't find any file at a path; None if it may."""
    scheme, separator, _ = path.partition(":/")
    if not separator or scheme.lower() == "file":
        plain = path if not separator else "/" + path[len(scheme) + 1 :].lstrip("/")
        return _of_workspace(plain) if is_of_workspace(path) else None
    scheme = scheme.lower()
    if scheme not in around.has_file_system:
        around.has_file_system[scheme] = _has_file_system(around.spark, scheme)
    return None if around.has_file_system[scheme] else f"no class for `{scheme}:` is in this session"


def _of_workspace(path: str) -> str | None:
    """Return why a workspace path can't exist; None if this machine has its top folder."""
    root = next(root for root in ROOTS if is_below(path, (root,)))
    part = path[len(root) :].lstrip("/").partition("/")[0]
    folder = root if not part or _GLOB & set(part) else f"{root}/{part}"
    if os.path.exists(folder):  # noqa: PTH110 - a path of the machine
        return None
    return f"{root} is a folder of a Databricks workspace, and this machine has no {folder}"


def _has_file_system(spark: SparkSession, scheme: str) -> bool:
    """Whether Spark has a file system for paths of a scheme that the map does not cover."""
    from framework.engine.files.hadoop_files import file_system_class, hadoop_setting
    from framework.engine.jvm.java_errors import Py4JError

    try:
        found = file_system_class(spark, scheme)
    except Py4JError:
        return False
    return found != MAPPED or hadoop_setting(spark, f"fs.sluice.{scheme}.impl") is not None


def _patches() -> list[Patch]:
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    methods: list[tuple[type, tuple[str, ...]]] = [
        (DataFrameReader, ("load", *_FORMATS)),
        (DataStreamReader, _FORMATS),
        (DataFrameWriter, ("save", *_FORMATS)),
        (DataStreamWriter, ("start",)),
    ]
    found = [Patch(owner, name, _with_paths) for owner, names in methods for name in names if name in owner.__dict__]
    found += [Patch(DataFrameReader, "jdbc", _with_given_table), Patch(DataFrameWriter, "jdbc", _with_discarded_rows)]
    found += [*delta_table_patches(), *isolated_write_patches()]
    for owner, _ in methods:
        found += [Patch(owner, "option", _with_option), Patch(owner, "options", _with_options)]
    return found


_PATCHES = Patches(_patches)


def _with_paths(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method with its path argument rewritten, which comes first; `parquet` takes several paths."""
    several = original.__name__ == "parquet" and original.__qualname__.startswith("DataFrameReader")
    reads = "Reader." in original.__qualname__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if found_inputs() is not None:
            if reads and (given := read_given(original, self, args, kwargs)) is not None:
                return given
            if original.__name__ == "save" and _is_without_path(original, self, args, kwargs):
                return original(_discarding(self))
            if not reads:
                args, kwargs = _written(original, self, args, kwargs)
        paths = args if several else args[:1]
        named = {key: spelled_path(value) if key in {"path", "paths"} else value for key, value in kwargs.items()}
        return original(self, *spelled_path(tuple(paths)), *args[len(paths) :], **named)

    return call


def _written(original: Callable[..., Any], writer: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of a writer's method in a sandbox, with a path below its folder."""
    bound = inspect.signature(original).bind(writer, *args, **kwargs)
    if isinstance(bound.arguments.get("path"), str):
        bound.arguments["path"] = written_path(bound.arguments["path"])
    return bound.args[1:], bound.kwargs


def _is_without_path(original: Callable[..., Any], writer: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call of `save` writes to a database, a topic or another system that has no path."""
    path = inspect.signature(original).bind(writer, *args, **kwargs).arguments.get("path")
    return path is None and not getattr(writer, _HAS_PATH, False)


def _discarding(writer: Any) -> Any:
    """Return a writer that runs its query and writes nothing, for systems outside of a sandbox."""
    return writer.format("noop").mode("append")


def _with_discarded_rows(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def jdbc(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if found_inputs() is None else _discarding(self).save()

    return jdbc


def _with_given_table(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def jdbc(self: Any, url: Any, table: Any, *args: Any, **kwargs: Any) -> Any:
        given = read_given_table(self, url, table)
        return original(self, url, table, *args, **kwargs) if given is None else given

    return jdbc


def _with_option(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def option(self: Any, key: Any, value: Any) -> Any:
        return original(self, key, _option_of(self, key, value))

    return option


def _with_options(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def options(self: Any, **given: Any) -> Any:
        return original(self, **{key: _option_of(self, key, value) for key, value in given.items()})

    return options


def _option_of(of: Any, key: Any, value: Any) -> Any:
    """Return the value of an option of a reader or writer; a writer in a sandbox writes below its folder."""
    is_path = found_inputs() is not None and isinstance(key, str) and key.lower() == "path"
    if not (is_path and type(of).__name__.endswith("Writer")):
        return _spelled_option(key, value)
    setattr(of, _HAS_PATH, True)
    return written_path(value)
