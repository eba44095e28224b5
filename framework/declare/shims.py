"""`import dlt` and `from pyspark import pipelines` as our face, for exactly as long as a module is loaded or a query called.

An installed package of either name is never shadowed otherwise: `sys.modules` and PySpark's own
attribute are afterwards what they were before, also when the module raised.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pyspark

_NAMES = ("dlt", "dlt.api", "pyspark.pipelines", "pyspark.pipelines.api")
_ATTRIBUTE = "pipelines"
_lock = threading.RLock()
_depth = 0
_hidden: dict[str, ModuleType] = {}
_attribute: list[ModuleType] = []


@contextmanager
def shimmed() -> Iterator[None]:
    """Give our face under every spelling for the length of the block; blocks may nest and overlap."""
    global _depth  # noqa: PLW0603 - sys.modules is global itself
    with _lock:
        if _depth == 0:
            _install()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _uninstall()


def _install() -> None:
    face = importlib.import_module("framework.pipelines")
    for name in _loaded():
        _hidden[name] = sys.modules.pop(name)
    found = pyspark.__dict__.get(_ATTRIBUTE)
    _attribute[:] = [found] if found is not None else []
    for name in _NAMES:
        sys.modules[name] = face
    setattr(pyspark, _ATTRIBUTE, face)


def _uninstall() -> None:
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(_hidden)
    _hidden.clear()
    if _attribute:
        setattr(pyspark, _ATTRIBUTE, _attribute.pop())
    else:
        delattr(pyspark, _ATTRIBUTE)


def _loaded() -> list[str]:
    """The names in `sys.modules` that belong to one of the packages."""
    packages = ("dlt", "pyspark.pipelines")
    return [name for name in sys.modules if name in packages or name.startswith(tuple(f"{each}." for each in packages))]
