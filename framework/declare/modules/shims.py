"""Shims for `import dlt`, `from pyspark import pipelines` and modules of Databricks' runtime while pipeline code runs.

The shims are in `sys.modules` only inside `shimmed()`. Afterwards `sys.modules` and the attribute of the `pyspark`
package are restored, whatever the code imported or raised. The shims work with and without an installed `dlt` or
`grpcio`, and do not affect them.
"""

from __future__ import annotations

import importlib
import pathlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from framework.declare.interface.exports import INTERFACE
from framework.declare.workspace.dbutils import DBUtils, module_globals
from framework.declare.workspace.surroundings import surroundings

_NAMES = (
    "dbutils",
    "display",
    "displayHTML",
    "getArgument",
    "sc",
    "spark",
    "sql",
    "sqlContext",
    "table",
    "udf",
)


class _Runtime(ModuleType):
    """A module whose attributes depend on the pipeline that imports them."""

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(name)
        spark = surroundings().spark
        if name == "udf":
            from pyspark.sql.functions import udf

            return udf
        return getattr(spark, name) if name in {"sql", "table"} else module_globals(spark)[name]


_FACES = ("dlt", "pyspark.pipelines")
_ROOTS = (*_FACES, "pyspark.dbutils", "databricks.sdk.runtime")
_SHIMS = (*(f"{root}{below}" for root in _FACES for below in ("", ".api")), *_ROOTS[2:])
_lock = threading.RLock()
_depth = 0
_replaced: dict[str, ModuleType] = {}
_attribute: list[object] = []


@contextmanager
def shimmed() -> Iterator[None]:
    """Replace `dlt` and `pyspark.pipelines` with the shims inside the block; blocks may nest and overlap in threads."""
    global _depth  # noqa: PLW0603 - sys.modules is global itself
    with _lock:
        if _depth == 0:
            try:
                _install()
            except BaseException:  # such as Ctrl+C
                _restore()
                raise
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _restore()


_OLD_FUNCTIONS = (
    "approxCountDistinct",
    "bitwiseNOT",
    "countDistinct",
    "shiftLeft",
    "shiftRight",
    "shiftRightUnsigned",
    "sumDistinct",
    "toDegrees",
    "toRadians",
)
"""Functions that `from pyspark.sql.functions import *` imports in older runtimes, but not in this PySpark."""
_named: list[str] = []


def _install() -> None:
    functions = importlib.import_module("pyspark.sql.functions")
    # Only what is not there: an interrupted `_restore` may have left names in both lists.
    missing = [name for name in _OLD_FUNCTIONS if name not in functions.__all__ and hasattr(functions, name)]
    _named.extend(missing)
    functions.__all__.extend(missing)
    pyspark = importlib.import_module("pyspark")
    _replaced.update(_under_shims())
    for name in _replaced:
        sys.modules.pop(name, None)
    if "pipelines" in pyspark.__dict__:
        _attribute.append(pyspark.__dict__["pipelines"])
    # Submodules without a shim, such as pyspark.pipelines.flow, are still imported from the installed package.
    package = [str(pathlib.Path(path) / "pipelines") for path in pyspark.__path__]
    for name, path in (("dlt", []), ("pyspark.pipelines", package)):
        face = _module(name, path)
        api = _module(f"{name}.api", None)
        face.__dict__["api"] = api
        sys.modules |= {name: face, f"{name}.api": api}
    pyspark.__dict__["pipelines"] = sys.modules["pyspark.pipelines"]
    sys.modules |= runtime_modules()


def _restore() -> None:
    for name in _SHIMS:
        sys.modules.pop(name, None)
    for name in _under_shims():
        sys.modules.pop(name, None)
    sys.modules |= _replaced
    _replaced.clear()
    pyspark = importlib.import_module("pyspark")
    pyspark.__dict__.pop("pipelines", None)
    if _attribute:
        pyspark.__dict__["pipelines"] = _attribute.pop()
    functions = importlib.import_module("pyspark.sql.functions")
    functions.__all__[:] = [name for name in functions.__all__ if name not in _named]
    _named.clear()


def _under_shims() -> dict[str, ModuleType]:
    """Return the loaded modules that have a shim's name, or a name below it."""
    # Searching one text of all names is faster than searching thousands of names, in each call of a query.
    names = ".\n".join(["", *sys.modules, ""])
    roots = tuple(f"{root}." for root in _ROOTS if f"\n{root}." in names)
    # A copy, because another thread may import a module at the same time.
    return {name: module for name, module in list(sys.modules.items()) if f"{name}.".startswith(roots)} if roots else {}


def _module(name: str, path: list[str] | None) -> ModuleType:
    """Return a module with the public interface; with a path, it is a package."""
    module = ModuleType(name, "Sluice's pipeline declarations under the name that the module imports.")
    module.__dict__.update(INTERFACE)
    module.__dict__["__all__"] = list(INTERFACE)
    if path is not None:
        module.__path__ = path
    return module


def runtime_modules() -> dict[str, ModuleType]:
    """Return the modules by name."""
    of_pyspark, of_sdk = ModuleType("pyspark.dbutils"), _Runtime("databricks.sdk.runtime")
    of_pyspark.__dict__["DBUtils"] = DBUtils
    of_sdk.__dict__["__all__"] = list(_NAMES)
    return {each.__name__: each for each in (of_pyspark, of_sdk)}
