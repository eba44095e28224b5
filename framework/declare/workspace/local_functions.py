"""Functions of a catalog or a service, as Python functions of this machine: key `functions` of the local file."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from framework.declare.specs import Pairs
from framework.foundation.errors import UserError
from framework.foundation.wording import exception_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.registered_functions import RegisteredFunctions

_TYPES = {bool: "boolean", bytes: "binary", float: "double", int: "bigint", str: "string"}
"""The types of values by annotations; a function without one of these returns strings, as for `spark.udf.register`."""


def register_local_functions(
    spark: SparkSession, functions: RegisteredFunctions, entries: Pairs
) -> Iterator[UserError]:
    """Register a Python function under each name that queries call, and yield the errors of those that are missing.

    Args:
        spark: the session of the pipeline.
        functions: the functions of the pipeline.
        entries: names, each with `module.function`; the module is in a folder of the pipeline, or installed.

    Raises:
        UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
    """
    for name, place in entries:
        try:
            found = _found(place)
            returns = _type_of(found)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            yield UserError("LOCAL_FUNCTION_MISSING", name=name, place=place, cause=exception_text(error))
        else:
            functions.create_python(spark, name, found, returns)


def _found(place: str) -> Callable[..., Any]:
    module, _, name = place.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _type_of(function: Callable[..., Any]) -> str | None:
    """The type of a function's values, as SQL; None if the function itself says it, as one of `udf` does."""
    if hasattr(function, "returnType"):
        return None
    annotation = inspect.signature(function, eval_str=True).return_annotation
    return _TYPES.get(annotation, "string")
