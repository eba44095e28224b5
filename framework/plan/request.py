"""The request for an update: as the user writes it, and with resolved names."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from framework.sources.starts import SourceStart


class RequestOptions(TypedDict, total=False):
    """The options of an update, with names as the user writes them.

    Args:
        refresh: datasets to refresh; all if no option names any.
        full_refresh: datasets to clear and recompute from all data of their sources.
        full_refresh_all: a full refresh of every dataset that allows one.
        reset_checkpoints: flows that start with a new checkpoint; their targets keep their rows. A mapping names
            where they start: `{"load": "startingVersion=12"}`, or a list with one start for each source.
        keep_history: back up each table of `full_refresh`, and put back the rows that its sources no longer have.
        history_keys: columns that identify a row of an append table; `*` for all, if the code has not changed.
        continuous: keep every flow running until the update is stopped; default: as the spec says.
    """

    refresh: Sequence[str]
    full_refresh: Sequence[str]
    full_refresh_all: bool
    reset_checkpoints: Sequence[str] | Mapping[str, str | Sequence[str]]
    keep_history: bool
    history_keys: Sequence[str]
    continuous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest:
    """A request for one update.

    Args:
        refresh: datasets to refresh; all if `full_refresh` and `reset_checkpoints` are empty too.
        full_refresh: datasets to clear and recompute.
        full_refresh_all: recompute every dataset that may be reset.
        outdated: datasets to recompute if they are selected, because an earlier version wrote their rows differently.
        withheld: datasets that are not updated even if they are selected.
        kept: datasets that `full_refresh_all` does not recompute; naming one in `full_refresh` is an error.
        reset_checkpoints: flows that begin a new generation; their targets keep their rows.
        starts: where the sources of reset flows start, by the flow's name; overrides the start in the code.
        keep_history: put back the rows of `full_refresh` tables that their sources no longer have.
        history_keys: the columns that identify a row of an append table; `ALL_COLUMNS` for all of them.
        continuous: keep every flow running until the update is stopped.
        trigger_interval_seconds: in a continuous update, the shortest time between two micro-batches of a flow.
    """

    refresh: tuple[QualifiedName, ...] = ()
    full_refresh: tuple[QualifiedName, ...] = ()
    full_refresh_all: bool = False
    outdated: frozenset[QualifiedName] = frozenset()
    withheld: frozenset[QualifiedName] = frozenset()
    kept: frozenset[QualifiedName] = frozenset()
    reset_checkpoints: tuple[QualifiedName, ...] = ()
    starts: tuple[tuple[QualifiedName, SourceStart], ...] = ()
    keep_history: bool = False
    history_keys: tuple[str, ...] = ()
    continuous: bool = False
    trigger_interval_seconds: float = 0.0

    def part(
        self,
        datasets: Collection[QualifiedName],
        resettable: Container[QualifiedName],
        flows: Container[QualifiedName],
    ) -> UpdateRequest:
        """Return the part of the request for some datasets: their full refreshes, and the resets of their flows.

        Args:
            datasets: the datasets.
            resettable: the datasets that `full_refresh_all` clears.
            flows: the flows into the datasets.
        """
        everything = self.full_refresh_all
        full = tuple(
            name
            for name in datasets
            if name in self.full_refresh or (everything and name in resettable and name not in self.kept)
        )
        return UpdateRequest(
            full_refresh=full,
            reset_checkpoints=tuple(name for name in self.reset_checkpoints if name in flows),
            starts=tuple((name, start) for name, start in self.starts if name in flows),
            keep_history=self.keep_history and bool(full),
            history_keys=self.history_keys if full else (),
        )

    def refreshes(self, name: QualifiedName) -> bool:
        """Return whether a dataset is cleared and recomputed, provided that it may be reset."""
        return self.full_refresh_all or name in self.full_refresh
