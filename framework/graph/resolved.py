"""The state of a resolution: the declarations, and the flows and datasets resolved so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow, Read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResolvedFlow:
    """A flow of the graph, and the values that only the resolution needs.

    Args:
        flow: the flow.
        frame: its query over stand-ins.
        settings: the Spark settings of its analysis.
        versions: the type of the versions of a snapshot function; None for other flows.
    """

    flow: GraphFlow
    frame: DataFrame
    settings: Mapping[str, str]
    versions: DataType | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolved:
    """The state of one resolution.

    Args:
        specs: the declared datasets.
        into: the declared flows by their targets.
        datasets: the resolved datasets; None for a dataset that has a fault or an input with a fault.
        flows: the resolved flows; None for a flow that has a fault or is being analysed.
    """

    specs: Mapping[QualifiedName, DatasetSpec]
    into: Mapping[QualifiedName, list[FlowSpec]]
    datasets: dict[QualifiedName, GraphDataset | None] = field(default_factory=dict)
    flows: dict[QualifiedName, ResolvedFlow | None] = field(default_factory=dict)

    @classmethod
    def nothing_of(cls, registry: Registry) -> Self:
        """Return the state before the resolution of a registry."""
        into: dict[QualifiedName, list[FlowSpec]] = {}
        for flow in registry.flows:
            into.setdefault(flow.target, []).append(flow)
        return cls(specs={spec.name: spec for spec in registry.datasets}, into=into)

    def is_view(self, name: QualifiedName | None) -> bool:
        """Whether a name is the name of a temporary view."""
        return name is not None and name in self.specs and self.specs[name].kind is DatasetKind.TEMPORARY_VIEW

    def view(self, name: QualifiedName) -> ResolvedFlow | None:
        """Return the flow of a temporary view; None if it is not resolved, or has a fault."""
        return self.flows.get(self.into[name][0].name)

    def graph_flows(self, specs: Iterable[FlowSpec]) -> tuple[GraphFlow, ...]:
        """Return the resolved ones of some flows."""
        found = (self.flows.get(spec.name) for spec in specs)
        return tuple(each.flow for each in found if each is not None)

    def flows_into(self, dataset: QualifiedName) -> list[GraphFlow]:
        """Return the resolved flows into a dataset."""
        return [*self.graph_flows(self.into.get(dataset, ()))]

    def reads_into(self, dataset: QualifiedName) -> list[Read]:
        """Return the reads of the resolved flows into a dataset."""
        return [read for flow in self.flows_into(dataset) for read in flow.reads]
