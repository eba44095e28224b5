"""Stand-in for the native pipelines module: loads modules as Databricks does, and records the calls.

    with as_on_databricks() as native:
        native.load("transformations/flights.py", spark)
    print(native.text())

It has the functions of the documented interface with their parameters; any other call fails as in Python. The location
of a call is taken from the calling frame, as in Spark's own module. It runs no query.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from framework.foundation.locations import SourceLocation
from framework.native.interface import INTERFACE, NativeFunction
from framework.native.runtime import VARIABLE

_PYSPARK = "pyspark.pipelines"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRecord:
    """One recorded call: the function, its arguments as text, the name of the decorated function, its location."""

    function: str
    arguments: tuple[tuple[str, str], ...]
    decorated: str | None
    location: SourceLocation

    def __str__(self) -> str:
        """`line 5: table(comment='All orders') on orders`."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.arguments)
        decorated = f" on {self.decorated}" if self.decorated is not None else ""
        return f"line {self.location.line}: {self.function}({arguments}){decorated}"


class NativeStandIn:
    """The stand-in and its recorded calls.

    `records` are the calls in their order; `functions` has the decorated functions by the name of their dataset, flow,
    sink or hook.

    Args:
        interface: functions of the module.
    """

    def __init__(self, interface: Mapping[str, NativeFunction]) -> None:
        self.interface = interface
        self.records: list[NativeRecord] = []
        self.functions: dict[str, Callable[..., Any]] = {}

    def module(self, name: str) -> ModuleType:
        """Return a module with a name and the functions of the interface."""
        module = ModuleType(name, "A stand-in of the native pipelines module.")
        module.__dict__.update({function: self._function(function) for function in self.interface})
        return module

    def load(self, path: str | Path, spark: object = None) -> None:
        """Run a file as Databricks runs a source file of a pipeline: once, with `spark` as a global."""
        code: CodeType = compile(Path(path).read_text(encoding="utf-8"), str(path), "exec")
        exec(code, {"__name__": "__main__", "__file__": str(path), "spark": spark})  # noqa: S102 - the user's own file, to run it is the purpose

    def text(self) -> str:
        """Return the recorded calls, one line each."""
        return "\n".join(map(str, self.records))

    def _function(self, name: str) -> Callable[..., Any]:
        described = self.interface[name]
        signature = _signature(described)

        def native(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            frame = sys._getframe(1)
            location = SourceLocation(file=frame.f_code.co_filename, line=frame.f_lineno)
            decorated = given.pop(described.decorates, None) if described.decorates is not None else None

            def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
                self._record(name, given, location, function)
                return function

            if not described.decorator:
                self._record(name, given, location, None)
                return None
            return decorate if decorated is None else decorate(decorated)

        native.__name__ = native.__qualname__ = name
        native.__signature__ = signature  # type: ignore[attr-defined]
        return native

    def _record(
        self, name: str, given: Mapping[str, Any], location: SourceLocation, function: Callable[..., Any] | None
    ) -> None:
        arguments = tuple((argument, _text(value)) for argument, value in given.items())
        decorated = None if function is None else function.__name__
        self.records.append(NativeRecord(function=name, arguments=arguments, decorated=decorated, location=location))
        if function is not None and not name.startswith("expect"):
            self.functions[str(given.get("name", decorated))] = function


@contextmanager
def as_on_databricks(
    interface: Mapping[str, NativeFunction] | None = None, *, module: str = _PYSPARK, runtime: str = "17.3"
) -> Iterator[NativeStandIn]:
    """Simulate a Databricks runtime in this process inside the block, with the stand-in as native module.

    Args:
        interface: functions of the module; by default all documented ones.
        module: the one native module that exists, `pyspark.pipelines` or `dlt`.
        runtime: version of the runtime.
    """
    stand_in = NativeStandIn(INTERFACE if interface is None else interface)
    pyspark = importlib.import_module("pyspark")
    modules = {name: sys.modules.get(name) for name in (_PYSPARK, "dlt")}
    attribute = pyspark.__dict__.get("pipelines")
    variable = os.environ.get(VARIABLE)
    try:
        for name in modules:
            # A module that is None in `sys.modules` can't be imported.
            sys.modules[name] = stand_in.module(name) if name == module else None  # type: ignore[assignment]
        pyspark.__dict__["pipelines"] = sys.modules[_PYSPARK]
        os.environ[VARIABLE] = runtime
        yield stand_in
    finally:
        _put_back(os.environ, VARIABLE, variable)
        _put_back(pyspark.__dict__, "pipelines", attribute)
        for name, before in modules.items():
            _put_back(sys.modules, name, before)


def _put_back(mapping: Any, key: str, value: object) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def _signature(described: NativeFunction) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    decorated = [inspect.Parameter(described.decorates, kind, default=None)] if described.decorates else []
    required = [inspect.Parameter(name, kind) for name in described.required]
    optional = [inspect.Parameter(name, kind, default=None) for name in described.optional]
    return inspect.Signature([*decorated, *required, *optional])


def _text(value: object) -> str:
    """Return a value as text: a function by its name, any other value by its `repr`."""
    name = getattr(value, "__name__", None)
    return str(name) if callable(value) and name is not None else repr(value)
