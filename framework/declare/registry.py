"""The registry of declarations, filled while modules are loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from framework.declare.inputs import GivenInputs
from framework.declare.local_table import LocalTable
from framework.declare.specs import DatasetSpec, ExpectationSpec, FlowSpec, IngestedGateway, IngestionSpec
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.locations import SourceLocation, caller_location
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DECLARED_MARK = "__sluice_declared__"
"""The attribute of a decorated function that holds its declarations."""

QueryFunction = Callable[[], "DataFrame"]
BatchFunction = Callable[["DataFrame", int], None]
EventHook = Callable[[dict[str, object]], None]
SnapshotFunction = Callable[[object], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec:
    """An event hook; it is disabled after this many consecutive failures (None: never)."""

    name: str
    max_allowable_consecutive_failures: int | None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedQuery:
    """A query that the engine generates, so its analysis can be reused.

    Args:
        text: all values that the query function uses; functions with equal texts build equal queries.
        reads: the datasets of the pipeline that it reads.
    """

    text: str
    reads: tuple[QualifiedName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedTables:
    """Tables of an ingestion that its source can't list now: only tables from earlier updates are known.

    Args:
        ingestion: the ingestion's name.
        schemas: catalog and schema of the copies, as in their full names.
        error: the reason.
        is_whole: whether no table of the ingestion can be listed.
    """

    ingestion: str
    schemas: frozenset[tuple[str, str]]
    error: SluiceError
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The declarations of the modules of one pipeline, in order of declaration.

    If a name is declared twice, both declarations are kept, and the graph's rules report them together.

    Args:
        catalog: the default catalog of unqualified names.
        schema: the default schema of unqualified names.
        local_tables: local copies of tables of other catalogs.
        inputs: gives the rows of what the code reads; None outside of a sandbox.
        gateways: the ingestions with their tables, as listed by the database.
        waiting_expectations: expectations that are stacked below a dataset's decorator, until that is applied. If any
            remain after the modules are loaded, they belong to no dataset, and the loader reports them.
        ingestions: the ingestions, which each update expands to datasets and flows.
        unlisted: the tables of ingestions that their databases can't list now.
        generated: the engine's own queries in `queries`, by flow.
        isolated: datasets with faults that fail their own flows only, not the pipeline.
        rebuilt: datasets that their next update rebuilds, because their rows were made with an outdated definition.
        replaced: datasets whose next update reads all rows again for that reason, with or without a rebuild.
        refreshed: datasets of `replaced` that are read again because of their policy, each with its note for the user.
        lacking: what datasets lack although their flows run, such as rows of tables that inherit from a source.
        faults: the gathered faults of declarations.
        configuration: keys of the pipeline's configuration that modules set.
        notes: parts of the modules that have no effect here, for warnings of the graph.
        spoilt: the names of datasets and flows with faulty declarations.
        gathers_faults: whether the faults of declarations are gathered; otherwise a declaration raises its fault.
        is_incomplete: whether a module raised, so that declarations are missing.
    """

    catalog: str
    schema: str
    local_tables: tuple[LocalTable, ...] = ()
    inputs: GivenInputs | None = None
    datasets: list[DatasetSpec] = field(default_factory=list)
    flows: list[FlowSpec] = field(default_factory=list)
    ingestions: list[IngestionSpec] = field(default_factory=list)
    gateways: list[IngestedGateway] = field(default_factory=list)
    unlisted: list[UnlistedTables] = field(default_factory=list)
    hooks: list[HookSpec] = field(default_factory=list)
    queries: dict[QualifiedName, QueryFunction] = field(default_factory=dict)
    generated: dict[QualifiedName, GeneratedQuery] = field(default_factory=dict)
    snapshot_functions: dict[QualifiedName, SnapshotFunction] = field(default_factory=dict)
    batch_functions: dict[QualifiedName, BatchFunction] = field(default_factory=dict)
    hook_functions: dict[str, EventHook] = field(default_factory=dict)
    waiting_expectations: list[ExpectationSpec] = field(default_factory=list)
    faults: list[SluiceError] = field(default_factory=list)
    configuration: dict[str, str] = field(default_factory=dict)
    notes: list[SluiceError] = field(default_factory=list)
    spoilt: set[QualifiedName] = field(default_factory=set)
    isolated: set[QualifiedName] = field(default_factory=set)
    rebuilt: set[QualifiedName] = field(default_factory=set)
    replaced: set[QualifiedName] = field(default_factory=set)
    refreshed: dict[QualifiedName, SluiceError] = field(default_factory=dict)
    lacking: dict[QualifiedName, SluiceError] = field(default_factory=dict)
    gathers_faults: bool = False
    is_incomplete: bool = False

    def name(self, text: str) -> QualifiedName:
        """Return the full name for a name as written in a module."""
        return QualifiedName.parse(text, catalog=self.catalog, schema=self.schema)

    def may_lack(self, name: QualifiedName) -> bool:
        """Whether a name may be a table of an ingestion that its source can't list now."""
        return any((name.catalog, name.schema) in each.schemas for each in self.unlisted)

    def take_expectations(self, taken: Collection[ExpectationSpec]) -> None:
        """Remove expectations from the waiting ones after their dataset is declared."""
        self.waiting_expectations[:] = [waiting for waiting in self.waiting_expectations if waiting not in taken]

    def forget_waiting(self, function: object) -> None:
        """Remove a function's expectations from the waiting ones after the fault of its dataset is gathered."""
        declared = getattr(function, DECLARED_MARK, None)
        self.take_expectations(getattr(declared, "expectations", ()))


_active: ContextVar[Registry | None] = ContextVar("sluice_registry", default=None)


@contextmanager
def registering(registry: Registry) -> Iterator[Registry]:
    """Make `registry` the target of declarations in the block."""
    token = _active.set(registry)
    try:
        yield registry
    finally:
        _active.reset(token)


def is_registering() -> bool:
    """Whether a registry is being filled."""
    return _active.get() is not None


def add_note(note: SluiceError) -> None:
    """Add a note to the registry being filled; ignore notes of a module that a query function imports later."""
    registry = _active.get()
    if registry is not None and note not in registry.notes:
        registry.notes.append(note)


def active_registry() -> Registry:
    """Return the registry that is being filled.

    Raises:
        UserError: GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE if no pipeline is being loaded.
    """
    registry = _active.get()
    if registry is None:
        raise UserError("GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE", location=caller_location())
    return registry
