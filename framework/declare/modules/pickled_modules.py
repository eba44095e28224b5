"""Pickling of pipeline modules: by value, because Python workers do not have the pipeline's files.

PySpark pickles a user-defined function when a query calls it, while the pipeline's modules are importable.
"""

from __future__ import annotations

import dis
import importlib
import io
import pickle
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from itertools import accumulate
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.udtf import UserDefinedTableFunction

from framework.declare.modules.pipeline_modules import Importer, PipelineModule, importing

_OF_THIS_PROCESS = frozenset({"spark", "__builtins__", "__loader__", "__spec__"})
_DECLARING = ("framework", "dlt", "pyspark.pipelines")
"""Modules that declare datasets; Python workers may not have them."""
_PLAIN = (str, int, float, bool, bytes, type(None))
_Pickler: Any = cloudpickle.CloudPickler
_reduce_code = _Pickler.dispatch_table[CodeType]


class _NamespacePackage(ModuleType):
    """A folder without `__init__.py`, as a package of the pickled modules."""

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.dynamic_subimport, (self.__name__, {"__path__": []})


class _Trial(_Pickler):  # type: ignore[misc]  # PySpark's is not typed
    """Pickles a value of a module as a test whether that is possible; other pipeline modules are pickled by name."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, PipelineModule):
            return importlib.import_module, (obj.__name__,)
        if obj is not _make_importable and _is_of_driver(obj):
            raise pickle.PicklingError
        return super().reducer_override(obj)


def pickle_by_value(module: ModuleType) -> None:
    """Pickle the module's functions by value, because executors don't have the file."""
    cloudpickle.register_pickle_by_value(module)


def pickle_by_name(module: ModuleType) -> None:
    """Pickle the module and its functions by name again."""
    if module.__name__ in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.unregister_pickle_by_value(module)


def _reduce_module(module: PipelineModule) -> tuple[Any, ...]:
    """Pickle a module's content, except objects of the driver such as the session, columns and UDFs."""
    if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
        return importlib.import_module, (module.__name__,)
    content = {
        name: value for name, value in vars(module).items() if name not in _OF_THIS_PROCESS and _can_be_sent(value)
    }
    if "__path__" in content:
        content["__path__"] = []  # a worker on this machine would import the folder's present files, and keep them
    # The content is the state and not an argument, because it may refer to the module.
    return cloudpickle.dynamic_subimport, (module.__name__, {}), content


def _can_be_sent(value: object) -> bool:
    if isinstance(value, _PLAIN):
        return True
    try:
        _Trial(io.BytesIO()).dump(value)
    except Exception:  # noqa: BLE001 - a value of the user's may raise anything, and so does Spark
        return False
    return True


def _is_of_driver(value: object) -> bool:
    """Return whether a value exists on the driver only: it declares datasets, or is a UDF (not picklable after use)."""
    if isinstance(value, UserDefinedFunction | UserDefinedTableFunction):
        return True
    if isinstance(value, FunctionType) and hasattr(value, "evalType"):
        return True
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and any(f"{name}.".startswith(f"{each}.") for each in _DECLARING)


def _reduce_with_imports(code: CodeType) -> tuple[Any, ...]:
    """Pickle the code of a function together with the pipeline modules that its body imports."""
    reduced: tuple[Any, ...] = _reduce_code(code)
    modules = _imported_by(code)
    return (*reduced, modules, None, None, _make_importable) if modules else reduced


def _make_importable(_code: CodeType, modules: dict[str, ModuleType]) -> None:
    """Make modules importable in a Python worker, replacing modules from earlier tasks, which may have older code."""
    sys.modules.update(modules)
    for name, module in modules.items():
        package, _, own_name = name.rpartition(".")
        if package:
            setattr(modules[package], own_name, module)


def _imported_by(code: CodeType) -> dict[str, ModuleType]:
    """Import the pipeline modules that a function imports when it runs; return them and their packages."""
    importer = importing.get()
    if importer is None:
        return {}
    names: set[str] = set()
    for name, parts in _import_statements(code, importer):
        if importer.has(name):
            importer.imported(name, parts)  # an exception fails the query with its cause
            names |= {name, *(f"{name}.{part}" for part in parts)}
    packages = {prefix for name in names for prefix in _prefixes(name)}
    modules = {name: importer.named[name] for name in sorted(packages) if name in importer.named}
    return {
        name: module if isinstance(module, PipelineModule) else _NamespacePackage(name)
        for name, module in modules.items()
    }


def _import_statements(code: CodeType, importer: Importer) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the absolute name of each module that the code imports, and the names that are imported from it."""
    arguments: list[Any] = [None, None]
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            level, parts = arguments
            package = importer.package_of(code.co_filename) if level else ""
            if package is not None:
                yield resolve_name("." * level + instruction.argval, package), tuple(parts or ())
        arguments = [arguments[1], instruction.argval]


def _prefixes(name: str) -> Iterator[str]:
    """Yield `a`, `a.b` and `a.b.c` for `a.b.c`."""
    return accumulate(name.split("."), "{}.{}".format)


_Pickler.dispatch_table.update({CodeType: _reduce_with_imports, PipelineModule: _reduce_module})
# Workers may not have this module, so it is pickled by value, including the functions that load pickles.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
