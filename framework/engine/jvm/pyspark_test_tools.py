"""Keeps PySpark 4.2 from importing its test tools, with pandas and PyArrow, in each process (0.4 s of CPU).

`lit` and each call to Java import `pyspark.testing.utils` to check whether NumPy is installed. A value can only be a
NumPy value if the process has imported NumPy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark

_PACKAGE = "pyspark.testing"
_UTILS = f"{_PACKAGE}.utils"


def defer_test_tools() -> None:
    """Defer the import of PySpark's test tools to their first use; no effect if they are imported already."""
    if _PACKAGE in sys.modules or _UTILS in sys.modules:
        return
    package, utils = _Deferred(_PACKAGE), _Deferred(_UTILS)
    package.__path__ = [str(Path(pyspark.__file__).parent / "testing")]
    package.utils = utils  # type: ignore[attr-defined]
    pyspark.testing = package  # type: ignore[attr-defined]
    sys.modules |= {_PACKAGE: package, _UTILS: utils}


class _Deferred(ModuleType):
    """A placeholder for a module until one of its attributes, other than the NumPy check, is used."""

    def __getattr__(self, name: str) -> Any:
        """Import the module and return its attribute."""
        if name == "have_numpy":
            return "numpy" in sys.modules
        if name.startswith("__"):  # attributes that Python and its tools look up in every module
            raise AttributeError(name)
        for each in (_PACKAGE, _UTILS):
            if isinstance(sys.modules.get(each), _Deferred):
                sys.modules.pop(each, None)
        return getattr(import_module(self.__name__), name)
