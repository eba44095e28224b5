"""The types by which modules of a pipeline are recognized, and what imports them."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Protocol


class PipelineModule(ModuleType):
    """A module of a pipeline. A user-defined function may refer to it, and then it is sent to Python workers."""


class PipelineLoader(SourceFileLoader):
    """The base class of what loads the modules of a pipeline."""


class Importer(Protocol):
    """Imports the modules of one pipeline."""

    named: dict[str, ModuleType]

    def has(self, name: str) -> bool:
        """Whether the folders have the module or package that the name of a module begins with."""
        ...

    def imported(self, absolute: str, parts: Sequence[str]) -> ModuleType:
        """Return what an import statement gets."""
        ...

    def package_of(self, file: str) -> str | None:
        """Return the package of the module of a file; None if it was not loaded."""
        ...


importing: ContextVar[Importer | None] = ContextVar("sluice_importing", default=None)
"""What imports the modules of the pipeline whose code runs in this thread."""
