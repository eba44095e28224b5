"""Base types of pipeline modules, which identify them, and the interface of their importer."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Protocol


class PipelineModule(ModuleType):
    """A module of a pipeline. A user-defined function may refer to it; it is then sent to Python workers."""


class PipelineLoader(SourceFileLoader):
    """The base class of the loader of pipeline modules."""


class Importer(Protocol):
    """Imports the modules of one pipeline."""

    named: dict[str, ModuleType]

    def has(self, name: str) -> bool:
        """Whether the folders have the top-level module or package of a module name."""
        ...

    def imported(self, absolute: str, parts: Sequence[str]) -> ModuleType:
        """Return the result of an import statement."""
        ...

    def package_of(self, file: str) -> str | None:
        """Return the package of a file's module; None if it was not loaded."""
        ...


importing: ContextVar[Importer | None] = ContextVar("sluice_importing", default=None)
"""The importer of the pipeline whose code runs in this thread."""
