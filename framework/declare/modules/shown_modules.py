"""`sys.modules` and `sys.path` while pipeline code runs: they show the modules of one pipeline at a time.

Import statements of pipelines do not depend on them (see `PipelineImports`). They serve look-ups by name, such as in
`typing.get_type_hints`, and imports by code outside of the pipeline. If blocks of several pipelines overlap in threads,
the modules of the pipeline that last entered a block or loaded a module are shown.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Protocol


class PipelineModules(Protocol):
    """The modules of one pipeline."""

    folders: tuple[Path, ...]
    named: dict[str, ModuleType]
    """Its modules by name; changed by `ShownModules` only."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module in the folders."""
        ...

    def hides(self, name: str) -> bool:
        """Whether other modules of this name must be hidden while the pipeline's code runs."""
        ...

    def is_own(self, module: ModuleType | None) -> bool:
        """Whether a module was loaded from the folders."""
        ...


class ShownModules:
    """The pipeline modules shown in `sys.modules` beside the modules of the process; one per process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[PipelineModules] = []
        self._shown: PipelineModules | None = None
        self._hidden: dict[str, ModuleType] = {}
        self._before: set[str] = set()
        self._pickled_by_value: dict[str, ModuleType] = {}

    @contextmanager
    def showing(self, modules: PipelineModules) -> Iterator[None]:
        """Show the modules of a pipeline in the block; blocks may nest and overlap in threads.

        After the last block, `sys.path`, the finders and `sys.modules` have no entry of any pipeline.
        """
        with self._lock:
            self._open.append(modules)
            self._show(modules)
        try:
            yield
        finally:
            with self._lock:
                self._close(modules)

    def add(self, modules: PipelineModules, name: str, module: ModuleType) -> None:
        """Add a module to its pipeline and show it before its code runs, as the code may look up its own module."""
        with self._lock:
            modules.named[name] = module
            if modules in self._open:
                self._show(modules)
                sys.modules[name] = module
                self._pickle_by_value(module)

    def remove(self, modules: PipelineModules, name: str) -> None:
        """Remove a module that failed."""
        with self._lock:
            modules.named.pop(name, None)
            if self._shown is modules:
                sys.modules.pop(name, None)

    def _close(self, modules: PipelineModules) -> None:
        last = max(index for index, each in enumerate(self._open) if each is modules)
        del self._open[last]
        if modules not in self._open and self._shown is modules:
            self._hide()
            if self._open:
                self._show(self._open[-1])
        if not self._open:
            # Not earlier: a function of another pipeline may be pickled in a block that is still open.
            # Not later: the names may then be those of installed modules, which workers have.
            for module in self._pickled_by_value.values():
                _pickle_by_name(module)
            self._pickled_by_value.clear()

    def _show(self, modules: PipelineModules) -> None:
        if self._shown is modules:
            return
        self._hide()
        # A copy, because another thread may import a module at the same time.
        self._hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if modules.hides(name)}
        sys.modules.update(modules.named)
        self._before = set(sys.modules) - modules.named.keys()
        for module in modules.named.values():
            self._pickle_by_value(module)
        sys.path[:0] = [str(folder) for folder in modules.folders]
        sys.meta_path.insert(0, modules)
        self._shown = modules

    def _hide(self) -> None:
        modules = self._shown
        if modules is None:
            return
        sys.meta_path.remove(modules)
        for folder in modules.folders:
            if str(folder) in sys.path:
                sys.path.remove(str(folder))
        for name in sys.modules.keys() - self._before:
            if modules.is_own(sys.modules.get(name)):
                modules.named[name] = sys.modules.pop(name)
        sys.modules.update(self._hidden)
        self._hidden, self._shown = {}, None

    def _pickle_by_value(self, module: ModuleType) -> None:
        from framework.declare.modules.pickled_modules import pickle_by_value

        pickle_by_value(module)
        self._pickled_by_value[module.__name__] = module


def _pickle_by_name(module: ModuleType) -> None:
    from framework.declare.modules.pickled_modules import pickle_by_name

    pickle_by_name(module)
