"""One call of the native module: the function is found by its new or older name, and called from the user's line."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.native.interface import OLDER_FUNCTIONS, OLDER_PARAMETERS

_MODULES = ("pyspark.pipelines", "dlt")
_OURS = "framework.declare"
# On one line, so that its whole frame has the first line number of the code object.
_CALL = (lambda function, positional, keywords: function(*positional, **keywords)).__code__


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """A call of a function by its native name, with arguments in the native form.

    Args:
        function: the name in `pyspark.pipelines`.
        keywords: the arguments by their names in `pyspark.pipelines`.
        positional: arguments that both native modules accept in this order.
        location: the line of the call in the user's module.
    """

    function: str
    keywords: Mapping[str, Any]
    positional: tuple[Any, ...] = ()
    location: SourceLocation | None = None

    def make(self) -> Any:
        """Call the function and return its result.

        Raises:
            UserError: NATIVE_MODULE_MISSING, NATIVE_FUNCTION_MISSING, NATIVE_ARGUMENT_MISSING.
        """
        native = find_native(self.function)
        if native is None:
            raise self._missing()
        return call_at(self.location, native, self.positional, self._fitting(native))

    def decorate(self, decorated: Any) -> Any:
        """Apply the function as a decorator, without a call if there are no arguments, and return the result.

        Raises:
            UserError: as for `make`.
        """
        if self.keywords or self.positional:
            return call_at(self.location, self.make(), (decorated,), {})
        bare = NativeCall(function=self.function, keywords={}, positional=(decorated,), location=self.location)
        return bare.make()

    def _fitting(self, native: Callable[..., Any]) -> dict[str, Any]:
        """The arguments by the parameter names of this native function."""
        accepted = _parameters(native)
        if accepted is None:
            return dict(self.keywords)
        fitting: dict[str, Any] = {}
        for name, value in self.keywords.items():
            spelled = next((each for each in (name, OLDER_PARAMETERS.get(name)) if each in accepted), None)
            if spelled is None:
                raise UserError(
                    "NATIVE_ARGUMENT_MISSING", location=self.location, function=self.function, argument=name
                )
            fitting[spelled] = value
        return fitting

    def _missing(self) -> UserError:
        found = [module.__name__ for module in _modules()]
        if not found:
            return UserError("NATIVE_MODULE_MISSING", location=self.location, modules=" nor ".join(_MODULES))
        return UserError(
            "NATIVE_FUNCTION_MISSING", location=self.location, function=self.function, modules=" and ".join(found)
        )


def find_native(function: str) -> Callable[..., Any] | None:
    """Find a native function in `pyspark.pipelines` or else in `dlt`, by its new or an older name."""
    for module in _modules():
        for name in (function, *OLDER_FUNCTIONS.get(function, ())):
            found = getattr(module, name, None)
            # The shims replace the module while Sluice itself loads modules, in any thread.
            if callable(found) and not str(getattr(found, "__module__", "")).startswith(_OURS):
                return found  # type: ignore[no-any-return]
    return None


def _modules() -> Iterator[ModuleType]:
    """The installed native modules; the second is imported only if the caller continues after the first."""
    for name in _MODULES:
        try:
            yield importlib.import_module(name)
        except ImportError:
            continue


def _parameters(native: Callable[..., Any]) -> frozenset[str] | None:
    """The parameter names of a function; None if it accepts any or its signature is unknown."""
    try:
        found = inspect.signature(native).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found):
        return None
    return frozenset(each.name for each in found)


def call_at(
    location: SourceLocation | None, function: Callable[..., Any], positional: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Call the function from a frame at the location.

    The native module takes the location of a declaration from its caller's frame. Without a frame at the
    user's line, each native error and event would name this file.
    """
    if location is None:
        return function(*positional, **keywords)
    code = _CALL.replace(co_filename=location.file, co_firstlineno=location.line, co_name="<module>")
    return FunctionType(code, {})(function, positional, keywords)
