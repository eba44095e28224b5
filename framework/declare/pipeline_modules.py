"""The types by which modules of a pipeline are recognized."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from types import ModuleType


class PipelineModule(ModuleType):
    """A module of a pipeline. A user-defined function may refer to it, and then it is sent to Python workers."""


class PipelineLoader(SourceFileLoader):
    """The base class of what loads the modules of a pipeline."""
