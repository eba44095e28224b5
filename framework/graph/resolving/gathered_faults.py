"""The faults of a resolution: reported together, without faults that are consequences of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import GraphErrors, SluiceError, UserErrors
from framework.foundation.names import QualifiedName
from framework.graph.graph import Read
from framework.graph.kinds import dataset_kind
from framework.graph.queries.calls import is_of_columns, query_failed, unfollowed_read
from framework.graph.resolved import Resolved
from framework.graph.rules import OF_ALL_FLOWS
from framework.sources.faults import is_source_fault


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatheredFaults:
    """The faults of the declarations and queries of a registry.

    Args:
        registry: the declarations.
        resolved: the state of the resolution.
        isolated: the faults of datasets that fail alone.
        waiting: the datasets that can't be analysed because of faults in others; they report no fault themselves.
    """

    registry: Registry
    resolved: Resolved
    isolated: dict[QualifiedName, SluiceError] = field(default_factory=dict)
    waiting: dict[QualifiedName, tuple[QualifiedName, ...]] = field(default_factory=dict)
    _errors: list[SluiceError] = field(default_factory=list)

    def add(self, *errors: SluiceError) -> None:
        """Add errors that have a location and are not consequences of others."""
        self._errors.extend(errors)

    def raise_all(self) -> None:
        """Raise the errors of the code, together with errors of sources.

        Raises:
            GraphErrors: the code has errors.
        """
        if self._errors:
            # A fault may be gathered twice: for a reader of the dataset, and for the dataset itself.
            found = (*self._errors, *self.isolated.values())
            raise GraphErrors(list({error.render(): error for error in found}.values()))

    def wait(self, target: QualifiedName, names: Iterable[QualifiedName]) -> None:
        """Make a dataset wait for others that have faults."""
        self.waiting[target] = tuple(dict.fromkeys((*self.waiting.get(target, ()), *names)))

    def gather(self, error: Exception, spec: FlowSpec | DatasetSpec, reads: Sequence[Read]) -> None:
        """Add an error with its own location or the location of its declaration.

        Args:
            error: the error of a flow or of a dataset.
            spec: its declaration.
            reads: the reads of the flow, or of the flows into the dataset.
        """
        error = unfollowed_read(error, spec.name, self.registry) or error
        target = spec.target if isinstance(spec, FlowSpec) else spec.name
        if target in self.registry.isolated:
            found = error if isinstance(error, SluiceError) else query_failed(error, spec.name, spec.location)
            self.isolated.setdefault(target, found if found.location else found.at(spec.location))
            return
        for each in error.errors if isinstance(error, UserErrors) else (error,):
            found = each if isinstance(each, SluiceError) else query_failed(each, spec.name, spec.location)
            found = found if found.location else found.at(spec.location)
            unread = self._unread_behind(reads)
            if is_source_fault(found):
                self.isolated.setdefault(target, found)
            elif unread and self._is_of_columns(each, spec):  # based on stored columns, which may be outdated
                self.wait(target, unread)
            elif not (self.registry.is_incomplete and self._may_be_consequence(each, spec, reads)):
                self._errors.append(found)

    def _is_of_columns(self, error: Exception, spec: FlowSpec | DatasetSpec) -> bool:
        """Whether an error depends on the columns of the flow's inputs, or of the flows into the dataset."""
        if isinstance(spec, FlowSpec):
            return is_of_columns(error)
        return not isinstance(error, SluiceError) or error.condition != "INVALID_SCHEMA"

    def _unread_behind(self, reads: Iterable[Read]) -> tuple[QualifiedName, ...]:
        """Return the unreadable datasets behind some reads, directly or through other datasets."""
        found: dict[QualifiedName, None] = {}
        left = [read.dataset for read in reads]
        for name in left:  # the loop extends it
            dataset = None if name is None else self.resolved.datasets.get(name)
            if dataset is not None and dataset.is_unresolved:
                found |= dict.fromkeys(dataset.waits_for or (dataset.name,))
            elif dataset is not None:
                left += {read.dataset for read in self.resolved.reads_into(dataset.name)}.difference(left)
        return tuple(found)

    def _may_be_consequence(self, error: Exception, spec: FlowSpec | DatasetSpec, reads: Sequence[Read]) -> bool:
        """Whether an error may be due to a missing column, of a flow in a module that raised."""
        if isinstance(spec, FlowSpec):
            return is_of_columns(error) and self._may_lack_columns(reads)
        condition = error.condition if isinstance(error, SluiceError) else None
        takes_more = condition in OF_ALL_FLOWS and self._takes_more_flows(spec)
        return takes_more or (condition != "INVALID_SCHEMA" and self._may_lack_columns(reads))

    def _takes_more_flows(self, spec: DatasetSpec) -> bool:
        """Whether other modules may declare further flows into a dataset; its known flows are valid."""
        return dataset_kind(spec, self.resolved.flows_into(spec.name)) is DatasetKind.STREAMING_TABLE

    def _may_lack_columns(self, reads: Iterable[Read]) -> bool:
        """Whether a table that is read, or a flow into it, may be declared in a module that raised.

        The analysed schema of the table may then lack columns, and an error of its reader may be a consequence.
        """
        for read in reads:
            if read.dataset is None:
                if read.path is not None:  # a table in the pipeline's storage, written by an earlier update
                    return True
                continue
            dataset = self.resolved.datasets.get(read.dataset)
            if dataset is None or dataset.kind is DatasetKind.STREAMING_TABLE:
                return True
            if dataset.kind is DatasetKind.MATERIALIZED_VIEW and self._may_lack_columns(
                self.resolved.reads_into(read.dataset)
            ):
                return True
        return False
