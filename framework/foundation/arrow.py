"""PyArrow without pandas, which it imports with its first array: 0.2 s of CPU time in each process that reads a log."""

from __future__ import annotations

import sys
import threading
from functools import cache
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

import pyarrow as pa

_PANDAS = "pandas"


@cache
def defer_pandas() -> None:
    """Let PyArrow take note of pandas when the process imports it, and not import it with the first array."""
    if _PANDAS in sys.modules:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    pa.array([])  # the only time that PyArrow asks whether there is pandas
    finder.asking = None


class _Finder:
    """Finds no pandas for PyArrow's question; when pandas is imported, PyArrow asks again."""

    def __init__(self) -> None:
        self.asking: int | None = threading.get_ident()

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Find pandas for all but the asking thread; part of the protocol of Python's finders."""
        if fullname != _PANDAS:
            return None
        if self.asking == threading.get_ident():
            raise ModuleNotFoundError(name=fullname)
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Runs the module's own loader."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and let PyArrow ask for it."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        _ = pa.lib._pandas_api.pd  # noqa: SLF001 - the only way to let it look again
