"""One call of the native module: found under whichever name it has there, and made from the user's own line."""

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
# On one line, so that all of its frame is at the line where the code is said to begin.
_CALL = (lambda function, positional, keywords: function(*positional, **keywords)).__code__


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """A call of a function by its native name, with arguments in the native form.

    Args:
        function: the name in `pyspark.pipelines`.
        keywords: the arguments, by their names there.
        positional: arguments that both native modules take in this order.
        location: where the user's module makes the call.
    """

    function: str
    keywords: Mapping[str, Any]
    positional: tuple[Any, ...] = ()
    location: SourceLocation | None = None

    def make(self) -> Any:
        """Call the function: what it returns.

        Raises:
            UserError: NATIVE_MODULE_MISSING, NATIVE_FUNCTION_MISSING, NATIVE_ARGUMENT_MISSING.
        """
        native = find_native(self.function)
        if native is None:
            raise self._missing()
        return call_at(self.location, native, self.positional, self._fitting(native))

    def decorate(self, decorated: Any) -> Any:
        """Apply the function as a decorator, bare where there are no arguments: what it returns.

        Raises:
            UserError: as for `make`.
        """
        if self.keywords or self.positional:
            return call_at(self.location, self.make(), (decorated,), {})
        bare = NativeCall(function=self.function, keywords={}, positional=(decorated,), location=self.location)
        return bare.make()

    def _fitting(self, native: Callable[..., Any]) -> dict[str, Any]:
        """The arguments under the names that this native function has them."""
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
    """The native function of a name, from `pyspark.pipelines` or else from `dlt`, under its new or an older name."""
    for module in _modules():
        for name in (function, *OLDER_FUNCTIONS.get(function, ())):
            found = getattr(module, name, None)
            # Our own face stands there while Sluice itself loads modules, in whichever thread.
            if callable(found) and not str(getattr(found, "__module__", "")).startswith(_OURS):
                return found  # type: ignore[no-any-return]
    return None


def _modules() -> Iterator[ModuleType]:
    """The native modules that are there; the second is imported only if the first does not answer."""
    for name in _MODULES:
        try:
            yield importlib.import_module(name)
        except ImportError:
            continue


def _parameters(native: Callable[..., Any]) -> frozenset[str] | None:
    """The names that the function takes, or None where it takes any or does not say."""
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

    The native module takes the place of a declaration from the frame that calls it. That frame must be at the
    user's line, or each error and event there would name this file.
    """
    if location is None:
        return function(*positional, **keywords)
    code = _CALL.replace(co_filename=location.file, co_firstlineno=location.line, co_name="<module>")
    return FunctionType(code, {})(function, positional, keywords)
