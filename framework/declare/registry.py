"""The registry that the faces write to while modules are loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from framework.declare.specs import DatasetSpec, ExpectationSpec, FlowSpec
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.locations import SourceLocation, caller_location
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DECLARED_MARK = "__sluice_declared__"
"""The attribute in which a decorated function carries what was declared from it."""

QueryFunction = Callable[[], "DataFrame"]
BatchFunction = Callable[["DataFrame", int], None]
EventHook = Callable[[dict[str, object]], None]
SnapshotFunction = Callable[[object], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec:
    """An event hook; it is switched off after this many failures in a row (None: never)."""

    name: str
    max_allowable_consecutive_failures: int | None
    location: SourceLocation | None = None


@dataclass(slots=True, kw_only=True)
class Registry:
    """All that the modules of one pipeline declared, in order of declaration.

    Two declarations of one name are both kept: the graph's rules report them together.

    Args:
        catalog: the default catalog of unqualified names.
        schema: the default schema of unqualified names.

    `faults` are those of declarations while modules are loaded, and `spoilt` the names of what could not be
    declared as it was meant; `gathers_faults` is set by the loader, elsewhere a declaration raises its fault.
    `waiting_expectations` were stacked below a dataset's decorator that has not come yet; what is left
    there when the modules are loaded belongs to no dataset, and the loader says so.
    """

    catalog: str
    schema: str
    datasets: list[DatasetSpec] = field(default_factory=list)
    flows: list[FlowSpec] = field(default_factory=list)
    hooks: list[HookSpec] = field(default_factory=list)
    queries: dict[QualifiedName, QueryFunction] = field(default_factory=dict)
    snapshot_functions: dict[QualifiedName, SnapshotFunction] = field(default_factory=dict)
    batch_functions: dict[QualifiedName, BatchFunction] = field(default_factory=dict)
    hook_functions: dict[str, EventHook] = field(default_factory=dict)
    waiting_expectations: list[ExpectationSpec] = field(default_factory=list)
    faults: list[SluiceError] = field(default_factory=list)
    spoilt: set[QualifiedName] = field(default_factory=set)
    gathers_faults: bool = False

    def name(self, text: str) -> QualifiedName:
        """The full name of what a module calls `text`."""
        return QualifiedName.parse(text, catalog=self.catalog, schema=self.schema)

    def take_expectations(self, taken: Collection[ExpectationSpec]) -> None:
        """Strike expectations from those that wait: their dataset has come."""
        self.waiting_expectations = [waiting for waiting in self.waiting_expectations if waiting not in taken]

    def forget_waiting(self, function: object) -> None:
        """Strike the expectations that a function carries: its dataset can't be declared, which is a fault already."""
        declared = getattr(function, DECLARED_MARK, None)
        self.take_expectations(getattr(declared, "expectations", ()))


_active: ContextVar[Registry | None] = ContextVar("sluice_registry", default=None)


@contextmanager
def registering(registry: Registry) -> Iterator[Registry]:
    """Make `registry` the one that declarations go to, for the length of the block."""
    token = _active.set(registry)
    try:
        yield registry
    finally:
        _active.reset(token)


def is_registering() -> bool:
    """Whether a registry is being filled."""
    return _active.get() is not None


def active_registry() -> Registry:
    """The registry that is being filled.

    Raises:
        UserError: GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE when no pipeline loads.
    """
    registry = _active.get()
    if registry is None:
        raise UserError("GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE", location=caller_location())
    return registry
