"""Copies whose rows were made by an outdated definition: they are refused, or read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.declare.copy_definition import CopyDefinition
from framework.ingest.confirmation import awaits_rebuild, has_changes, has_rows, is_pending, is_rebuild_open
from framework.ingest.declared import reads_altered
from framework.ingest.drift import drift_error, is_replaceable
from framework.ingest.names import changes_name
from framework.ingest.refresh_policy import note_of_refresh
from framework.ingest.state import GatewayState, GatewayStore, Mode
from framework.ingest.tables.copies import Copy
from framework.ingest.tables.known_tables import recorded_copy

if TYPE_CHECKING:
    from framework.declare.registry import Registry
    from framework.declare.specs import IngestionSpec
    from framework.foundation.files.storage_port import Storage
    from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatedCopies:
    """Decides whether the outdated copies of one ingestion are refused or read again, and notes it.

    Args:
        registry: gets the copies whose rows are read again.
        storage: the pipeline's storage.
        spec: the ingestion.
        is_refreshed: whether the update clears a dataset and recomputes it.
    """

    registry: Registry
    storage: Storage
    spec: IngestionSpec
    is_refreshed: Callable[[QualifiedName], bool]

    def check(self, copy: Copy, state: GatewayState | None) -> None:
        """Refuse a copy that has rows of another definition, unless this update reads all its rows again.

        Args:
            copy: the copy, as its rows would be made now.
            state: the state of its ingestion; None before the first update.

        Raises:
            UserError: INGESTION_TABLE_REDEFINED, INGESTION_COLUMNS_CHANGED.
        """
        target, storage = copy.target, self.storage
        before = recorded_copy(storage, state, self.spec.name, target)
        if before is None:
            return
        error = drift_error(before.definition, copy.definition)
        is_outdated = error is not None and (has_rows(storage, target) or self._has_changes_only(copy))
        is_unfinished = before.rebuild > 0 and is_rebuild_open(storage, before)
        if not is_outdated and not is_unfinished:
            if error is not None and not self._is_skipped(copy):
                # It has no rows, but earlier staged changes are skipped, and its table has the earlier columns.
                self.registry.replaced.add(target)
                if not is_replaceable(before.definition, copy.definition):
                    self.registry.rebuilt.add(target)
            return
        if self._is_read_again(copy, before.definition, state, is_outdated=is_outdated):
            self.registry.replaced.add(target)
            if is_unfinished or not is_replaceable(before.definition, copy.definition):
                self.registry.rebuilt.add(target)
        elif error is not None and is_outdated and not self.is_refreshed(target):
            raise error
        elif awaits_rebuild(storage, before):
            self.registry.rebuilt.add(target)

    def _is_read_again(
        self, copy: Copy, before: CopyDefinition, state: GatewayState | None, *, is_outdated: bool
    ) -> bool:
        """Whether this update reads all rows of a copy again: it was missed, or a request or its policy demands it."""
        storage, now, key = self.storage, copy.definition, copy.key
        known = None if state is None else state.table(key)
        if (known is not None and reads_altered(known, before, now)) or is_pending(storage, self.spec.name, key):
            return True
        if not is_outdated or self.is_refreshed(copy.target):
            return False
        policy = copy.configuration.auto_full_refresh_policy
        note = note_of_refresh(policy, storage, before, now, copy.target, key=key)
        if note is not None:
            self.registry.refreshed[copy.target] = note.at(self.spec.location)
        return note is not None

    def _has_changes_only(self, copy: Copy) -> bool:
        """Whether a copy without a snapshot may have staged changes to apply."""
        return self._is_skipped(copy) and has_changes(self.storage, changes_name(self.spec, self.registry))

    def _is_skipped(self, copy: Copy) -> bool:
        return GatewayStore(self.storage).request(self.spec.name, copy.key).mode is Mode.SKIPPED
