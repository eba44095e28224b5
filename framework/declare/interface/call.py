"""One call of a declaration function: its name and location, and the validation of its arguments.

Every argument of a declaration is validated here. The error of an invalid argument names the function, the argument,
the location and the remedy, without a traceback of Sluice's code.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from framework.declare.databricks_settings import spark_settings
from framework.declare.interface.gathering import call_gathering
from framework.declare.registry import active_registry, is_registering
from framework.declare.session.active_session import is_seeing
from framework.declare.session.mutations import is_guarded
from framework.declare.specs import Pairs
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation, caller_location
from framework.foundation.names import QualifiedName, split_parts
from framework.foundation.nearest import nearest_name
from framework.foundation.secrets.known_secrets import remember_settings
from framework.native.forwarding import forward
from framework.native.runtime import on_databricks

P = ParamSpec("P")
R = TypeVar("R")
_FORMER_NAMES = {"snapshot_and_version": "source"}
"""Arguments by their former names in `dlt`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of `function` at `location` in the user's source; `flow` is the name of its flow, if it declares one."""

    function: str
    location: SourceLocation | None
    flow: object = None

    @classmethod
    def of(cls, function: str, flow: object = None) -> Call:
        """Return the current call in the user's code.

        Raises:
            UserError: GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE if no pipeline is being loaded.
        """
        active_registry()
        return cls(function=function, location=caller_location(), flow=flow)

    def fault(self, condition: str, **fields: object) -> UserError:
        """Return the error of `condition` at this call; its fields include the names of the function and the flow."""
        return UserError(condition, location=self.location, **{"function": self.function, "flow": self.flow, **fields})

    def wrong_type(self, argument: str, value: object, expected: str) -> NoReturn:
        """Refuse an argument of the wrong type."""
        raise self.fault("INVALID_ARGUMENT.TYPE", argument=argument, expected=expected, actual=type(value).__name__)

    def wrong_value(self, argument: str, value: object, expected: str) -> NoReturn:
        """Refuse an argument with an invalid value."""
        raise self.fault("INVALID_ARGUMENT.VALUE", argument=argument, value=value, expected=expected)

    def text(self, argument: str, value: object) -> str:
        """Return a text that is not empty, without surrounding whitespace."""
        if not isinstance(value, str):
            self.wrong_type(argument, value, "a str")
        if not value.strip():
            self.wrong_value(argument, value, "a non-empty str")
        return self._unicode(argument, value).strip()

    def _unicode(self, argument: str, value: str) -> str:
        """Refuse unpaired surrogates, which cannot be encoded for files or the JVM."""
        if any("\ud800" <= character <= "\udfff" for character in value):
            self.wrong_value(argument, value, "a str of valid Unicode")
        return value

    def optional_text(self, argument: str, value: object) -> str | None:
        """Return a text that is not empty, or None."""
        return None if value is None else self.text(argument, value)

    def comment(self, value: object) -> str | None:
        """Return the comment unchanged; None if it is empty."""
        if value is not None and not isinstance(value, str):
            self.wrong_type("comment", value, "a str")
        return self._unicode("comment", value) if value else None

    def flag(self, argument: str, value: object) -> bool:
        """Return True or False; None counts as False."""
        if value is None:
            return False
        if not isinstance(value, bool):
            self.wrong_type(argument, value, "True or False")
        return value

    def choice(self, argument: str, value: object, choices: Collection[str]) -> str | None:
        """Return one of the choices in lower case, or None."""
        text = self.optional_text(argument, value)
        if text is not None and text.lower() not in choices:
            self.wrong_value(argument, value, "one of " + ", ".join(sorted(choices)))
        return text and text.lower()

    def names(self, argument: str, value: object) -> tuple[str, ...]:
        """Return a list of column names as a tuple; empty for None.

        Raises:
            UserError: INVALID_ARGUMENT.* for another type, or for a repeated name.
        """
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self.wrong_type(argument, value, "a list of column names")
        names = tuple(self.text(f"{argument}[{index}]", name) for index, name in enumerate(value))
        self.refuse_repeats(argument, names)
        return names

    def refuse_repeats(self, argument: str, names: tuple[str, ...]) -> None:
        """Refuse a list with a repeated name."""
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            self.wrong_value(argument, list(names), f"a list without duplicates ({repeated} is repeated)")

    def pairs(self, argument: str, value: object) -> Pairs:
        """Return a dict of settings as pairs of texts, sorted by key, without settings for Databricks' runtime only."""
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            self.wrong_type(argument, value, "a dict of str to str")
        pairs = ((self.text(f"{argument} key", key), self._setting(argument, key, value[key])) for key in value)
        settings = spark_settings(tuple(sorted(pairs)))
        remember_settings(settings)
        return settings

    def _setting(self, argument: str, key: object, value: object) -> str:
        """Return a setting's value as Spark's text: `true`, not `True`."""
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            self.wrong_type(f"{argument}[{key!r}]", value, "a str")
        return str(value)

    def qualified(self, argument: str, value: object) -> QualifiedName:
        """Return the full name of a dataset or flow of this pipeline.

        Raises:
            UserError: INVALID_NAME at the location of the call, or as for `text`.
        """
        text = self.text(argument, value)
        try:
            return active_registry().name(text)
        except UserError as error:
            raise UserError(error.condition, location=self.location, **error.fields) from None

    def column_name(self, argument: str, text: str) -> str:
        """Return the column name of an identifier such as `a` or `` `a b` ``, without backticks.

        Raises:
            UserError: AUTOCDC_MULTIPART_COLUMN_IDENTIFIER for `a.b`; INVALID_ARGUMENT.VALUE for an invalid identifier.
        """
        try:
            parts = split_parts(text)
        except UserError:
            parts = [] if "`" in text else [text]
        if len(parts) > 1:
            raise self.fault("AUTOCDC_MULTIPART_COLUMN_IDENTIFIER", argument=argument, columnName=text, nameParts=parts)
        if not parts:
            self.wrong_value(argument, text, "a column name")
        return parts[0]

    def exclusive(self, **arguments: object) -> None:
        """Refuse a call with more than one of the arguments.

        Raises:
            UserError: INVALID_ARGUMENT.BOTH with the first two given arguments.
        """
        given = [name for name, value in arguments.items() if value is not None and value is not False]
        if len(given) > 1:
            raise self.fault("INVALID_ARGUMENT.BOTH", first=given[0], second=given[1])


def declaration(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a declaration function: an unknown or a missing argument raises a UserError.

    All calls of declaration functions pass through this decorator, so it also forwards them to the native
    module when Databricks runs the pipeline.
    """
    signature = signature_of(function)
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for former, name in _FORMER_NAMES.items():
            if former in kwargs and name in signature.parameters and name not in kwargs:
                kwargs[name] = kwargs.pop(former)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            misfit = _misfit(function.__name__, signature, kwargs, error)
            unknown = misfit.fields.get("argument")
            if unknown is None or not _gathers_faults():
                raise misfit from None
            active_registry().faults.append(misfit)
            return checked(*args, **{name: kwargs[name] for name in kwargs if name != unknown})  # type: ignore[arg-type]
        if _gathers_faults():
            return cast("R", call_gathering(function, active_registry(), signature, bound.arguments))
        if not on_databricks() or _is_ours():
            return function(*args, **kwargs)
        said = {
            name: value for name, value in bound.arguments.items() if value is not None and value is not defaults[name]
        }
        return cast("R", forward(function.__name__, said, caller_location()))

    checked.__signature__ = signature  # type: ignore[attr-defined]
    return checked


def signature_of(function: Any) -> inspect.Signature:
    """Return the signature of a declaration, with each argument of `Unpack[…]` as a separate parameter.

    The default of such a parameter is False for a bool, and None for other types.
    """
    signature = inspect.signature(function)
    *parameters, last = signature.parameters.values()
    if last.kind is not inspect.Parameter.VAR_KEYWORD:
        return signature
    shared = function.__globals__[last.annotation.removeprefix("Unpack[").removesuffix("]")]
    more = (
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=each.__forward_arg__,
            default=False if _is_flag(each.__forward_arg__) else None,
        )
        for name, each in shared.__annotations__.items()
    )
    return signature.replace(parameters=[*parameters, *more])


def _is_flag(annotation: str) -> bool:
    return annotation.startswith("bool") and not annotation.endswith("None")


def _gathers_faults() -> bool:
    """Whether modules are being loaded, so that faults are gathered and reported together."""
    return is_registering() and active_registry().gathers_faults


def _is_ours() -> bool:
    """Whether Sluice itself is loading or running the module, on Databricks or elsewhere."""
    return is_registering() or is_guarded() or is_seeing()


def _misfit(function: str, signature: inspect.Signature, kwargs: Mapping[str, object], error: TypeError) -> UserError:
    """Return the error of arguments that don't fit the signature, with the nearest name for an unknown argument."""
    call = Call(function=function, location=caller_location())
    unknown = next((name for name in kwargs if name not in signature.parameters), None)
    if unknown is None:
        return call.fault(
            "INVALID_ARGUMENT.CALL", reason=str(error), advice=f"Valid arguments: {', '.join(signature.parameters)}."
        )
    near = nearest_name(unknown, signature.parameters)
    advice = f"Did you mean `{near}`?" if near else "Valid arguments: " + ", ".join(signature.parameters) + "."
    return call.fault("INVALID_ARGUMENT.UNKNOWN", argument=unknown, advice=advice)
