"""Begins new generations of snapshots and of logs, before any flow of an update runs.

The order of the durable effects, and why a crash after each is safe:

1. The position of the new generation is read at the source. For a new log, the old position is dropped and a new one
   created first. After a crash the request is still open: the next update repeats the step; nothing used the position.
2. `gateway.json` records the position, together with the numbers of the checkpoint generations that belong to it.
3. These checkpoint generations begin. After a crash between two of them, the next update begins the missing ones.

No flow runs while a position is read. So every change that is already applied has a lower position, and the generation
of a change never depends on when it is applied. A transaction that commits below the position is visible before the
first chunk is read, because `settled_position` waits for all running transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from framework.checkpoints.generations import GenerationStore
from framework.declare.copy_definition import CopyDefinition
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.clock import Clock
from framework.foundation.errors import SluiceError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.ingest.confirmation import has_changes, has_rows, is_rebuild_open
from framework.ingest.connections import gateway_facts
from framework.ingest.copy_state import CopyState, new_copy
from framework.ingest.declared import forget_moved, record_undeclared, refreshed, staged_for_copies
from framework.ingest.drift import is_replaceable
from framework.ingest.log_positions import LogPositions, Waiting
from framework.ingest.refresh_policy import ask_under_policy
from framework.ingest.state import (
    GatewayState,
    GatewayStore,
    Mode,
    Request,
    SnapshotGeneration,
    TableState,
    copy_elsewhere,
)
from framework.ingest.status import position_gap, stored_offset
from framework.ingest.takeovers import Takeovers
from framework.sources.databases.position import Position

_MISSED = "begins, because an earlier update did not have its table, or staged its changes for another copy"
_TAKEN_OVER = "begins, because the table was read on another server"
_BEGIN = Position(order=0, text="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that the source refused in this update; it stays open for the next one.

    Args:
        target: the copy of the request; for a whole gateway, the table of changes.
        error: why the source refused it.
        gap: the condition why the present log can't be read further; None if it can, and for a copy.
    """

    target: QualifiedName
    error: SluiceError
    gap: str | None = None


def begin_generations(
    gateways: Sequence[IngestedGateway],
    storage: Storage,
    clock: Clock,
    *,
    is_refreshed: Callable[[QualifiedName], bool] = lambda _: False,
    reader: str = "",
    unread: Collection[str] = (),
    waiting: Waiting = lambda _: nullcontext(),
) -> tuple[Refusal, ...]:
    """Begin the generations that operators requested, and record the tables of the gateways.

    The caller holds the lock of updates, and no flow runs yet.

    Args:
        gateways: the gateways.
        storage: the pipeline's storage.
        clock: the time at which checkpoints begin.
        is_refreshed: whether the update clears a copy and reads it again.
        reader: the storage with its identity, which reads the logs from now on.
        unread: the names of declared ingestions whose databases can't be read now; their states stay as they are.
        waiting: a context that is entered while a gateway waits for a position.

    Returns:
        The requests that failed at the source; the other tables continue.
    """
    store = GatewayStore(storage)
    own = [each for each in gateways if not each.other_storage]
    refusals = tuple(
        refusal
        for each in own
        for refusal in _Beginning(each, store, storage, clock, is_refreshed=is_refreshed, waiting=waiting).run(reader)
    )
    forget_moved(own, store)
    record_undeclared([*(each.name for each in gateways), *unread], store)
    return refusals


def _reader_of(state: GatewayState, storage: str) -> str:
    """Return the present root of a storage, which may have moved, with the id from the first run of the ingestion."""
    return "" if not storage else storage.rpartition("#")[0] + "#" + (state.reader or storage).rpartition("#")[2]


class _Beginning:
    """The new generations of one gateway."""

    def __init__(
        self,
        gateway: IngestedGateway,
        store: GatewayStore,
        storage: Storage,
        clock: Clock,
        *,
        is_refreshed: Callable[[QualifiedName], bool],
        waiting: Waiting,
    ) -> None:
        self._is_refreshed = is_refreshed
        self._log = LogPositions(gateway=gateway, waiting=waiting)
        self._takeovers = Takeovers(storage=storage, facts=gateway_facts(gateway))
        self._gateway = gateway
        self._store = store
        self._storage = storage
        self._stored = store.read(gateway.name)
        self._checkpoints = GenerationStore(storage, clock)
        self._reader = ""
        self._refusals: list[Refusal] = []
        self._found: Position | SluiceError | None = None
        self._taken_over: set[str] = set()
        self._definitions = {each.target: each.definition for each in gateway.tables if each.definition is not None}

    def run(self, reader: str) -> list[Refusal]:
        state = self._with_missed(refreshed(self._stored, self._gateway, next_checkpoint=self._next_checkpoint))
        state = replace(state, storage=reader, reader=_reader_of(state, reader))
        self._reader = state.reader
        self._ask_again(state)  # an earlier update may have been killed before this step
        state = self._with_new_log(state, self._store.request(self._gateway.name))
        self._ask_for_missed(state)
        state = self._with_taken_over(state)
        ask_under_policy(self._gateway, state, self._store)
        requests = self._store.table_requests(self._gateway.name)
        for table in state.tables:
            request = _open_request(table, requests.get(table.table.key, Request()))
            if request is not None:
                state = self._with_generation(state, table, request)
        state = self._published(self._identified(state, requests), requests)
        for declared in self._gateway.tables:
            state = self._with_definition(self._with_refresh(state, declared), declared)
        state = staged_for_copies(state)
        if state != self._stored:
            self._store.write(state)
        self._ask_again(state)
        self._begin_checkpoints(state)
        return self._refusals

    def _ask_again(self, state: GatewayState) -> None:
        """Reopen requests for rows that the new snapshot leaves out, made after this update read the requests."""
        for source in self._store.table_requests(self._gateway.name):
            known = state.table(source)
            if known is not None and known.current is not None:
                self._store.change_request(partial(_with_open_rows, known.current), self._gateway.name, source)

    def _ask_for_missed(self, state: GatewayState) -> None:
        """Request a snapshot of every missed table, also of tables without a snapshot: changes of them are lost.

        After a crash the table is still marked as missed, and the next update begins its snapshot.
        """
        for each in state.tables:
            if _is_read_again(each):
                self._store.change_request(lambda before: before.with_snapshot, self._gateway.name, each.table.key)

    def _with_missed(self, state: GatewayState) -> GatewayState:
        """Return the state in which tables that were published before they could be copied are marked as missed."""
        if not has_changes(self._storage, self._gateway.changes):
            return state
        tables = (
            replace(each, is_missed=True)
            if not each.identity and each.table.is_logged and not has_rows(self._storage, each.table.target)
            else each
            for each in state.tables
        )
        return replace(state, tables=tuple(tables))

    def _next_checkpoint(self, table: IngestedTable) -> int:
        return self._checkpoints.latest_number(table.target, table.snapshot_flow) + 1

    def _with_new_log(self, state: GatewayState, request: Request) -> GatewayState:
        """Return the state with a new log, if one is requested: every table is read again from its position."""
        number = request.generation
        if number <= state.log_generation:
            return state
        try:
            logged = self._log.begin_again(self._reader)
        except SluiceError as error:
            gap = position_gap(self._storage, state)
            self._refusals.append(Refusal(target=self._gateway.changes, error=error, gap=gap))
            return state
        for table in state.tables:
            if table.is_declared and table.table.identity:
                anew = replace(table, table=logged.get(table.table.key, table.table))
                state = self._begun(state, anew, Request(generation=table.number + 1), number, position=_BEGIN)
            elif table.is_declared:
                state = self._missed_with_fault(state, table)
        changes = self._gateway.changes
        checkpoint = self._checkpoints.latest_number(changes, changes) + 1
        return replace(state, log_generation=number, changes_checkpoint=checkpoint)

    def _missed_with_fault(self, state: GatewayState, table: TableState) -> GatewayState:
        """Return the state in which all rows of a table with an error are read again, once it can be copied.

        After a crash the request for the log is still open, and the next update makes this request again.
        """

        def whole(before: Request) -> Request:
            return replace(before.with_snapshot, generation=table.number + 1, where=None, accepted="")

        self._store.change_request(whole, self._gateway.name, table.table.key)
        return self._replaced(state, replace(table, is_missed=True))

    def _with_generation(
        self, state: GatewayState, table: TableState, request: Request, *, is_refresh: bool = False
    ) -> GatewayState:
        position = self._position(state)
        if isinstance(position, SluiceError):
            self._refusals.append(Refusal(target=table.table.target, error=position))
            return state
        return self._begun(state, table, request, state.log_generation, position=position, is_refresh=is_refresh)

    def _with_taken_over(self, state: GatewayState) -> GatewayState:
        """Return the state in which tables of another server are read again, unless their rows are proven right."""
        state = self._takeovers.proven(state)
        end = self._position(state) if self._takeovers.are_open(state) else None
        if end is None or isinstance(end, SluiceError):
            return state  # the flow of the changes refuses another server
        state, elsewhere = self._takeovers.compared(state, end)
        for table in elsewhere:
            self._taken_over.add(table.table.key)
            state = self._begun(state, table, Request(generation=table.number + 1), state.log_generation, position=end)
        return state

    def _replaced(self, state: GatewayState, table: TableState) -> GatewayState:
        key = table.table.key
        return replace(state, tables=tuple(table if each.table.key == key else each for each in state.tables))

    def _position(self, state: GatewayState) -> Position | SluiceError:
        """Return the position of the generations that begin now, or the error of the source.

        It is read once for all tables, because no flow runs in between: one wait for open transactions is enough.
        """
        if self._found is None:
            try:
                self._found = self._log.settled(stored_offset(state, self._storage))
            except SluiceError as error:
                self._found = error
        return self._found

    def _with_refresh(self, state: GatewayState, table: IngestedTable) -> GatewayState:
        """Return the state with a generation for the full refresh of a copy that has rows of another definition.

        Changes that were staged earlier are not applied to the new rows: they may have the same version of the columns
        but other values, for example after a column was dropped and recreated. The same holds for a copy without rows.
        """
        before, now = self._copy(state, table.target), table.definition
        known = state.table(table.key)
        if known is None or now is None or before is None or before.followed_by(now) is not None:
            return state
        request = Request(generation=known.number + 1)
        if not has_rows(self._storage, table.target):
            is_staged = has_changes(self._storage, self._gateway.changes)
            if self._is_skipped(table) or not (is_staged or self._begins_empty(before, now)):
                return state
            # As for a missed table: only a snapshot contains the effect of the changes that are skipped.
            self._store.change_request(lambda before: before.with_snapshot, self._gateway.name, table.key)
            passed = replace(known, is_missed=True)
            if not is_staged:  # every change belongs to the new generation
                return self._begun(state, passed, request, state.log_generation, position=_BEGIN)
            return self._with_generation(state, passed, request)
        # The plan refuses the full refresh of a paused table.
        if not self._is_refreshed(table.target) or self._store.is_paused(self._gateway.name, table.key):
            return state
        return self._with_generation(state, known, request, is_refresh=True)

    def _is_skipped(self, table: IngestedTable) -> bool:
        return self._store.request(self._gateway.name, table.key).mode is Mode.SKIPPED

    def _begun(
        self,
        state: GatewayState,
        table: TableState,
        request: Request,
        log_generation: int,
        *,
        position: Position,
        is_refresh: bool = False,
    ) -> GatewayState:
        """Return the state with a new generation of a table.

        If rows of the copy have another definition, the generation reads all rows; where rows can't be replaced in
        place, and for a full refresh, it begins with an empty copy.
        """
        target = table.table.target
        checkpoint = self._next_checkpoint(table.table)
        now, before = self._definitions.get(target), self._copy(state, target)
        is_outdated = now is not None and before is not None and before.followed_by(now) is None
        is_rebuild = before is not None and (is_refresh or self._begins_empty(before, now))
        where = None if is_outdated or table.is_missed else self._filter(table, request)
        begun = SnapshotGeneration(
            number=request.generation,
            log_generation=log_generation,
            position=position.order,
            log=position.log,
            checkpoint=checkpoint,
            where=where,
            is_rebuild=is_rebuild,
            skips_earlier=table.is_missed,
        )
        known = replace(table, generations=(*table.generations, begun), is_missed=False, read_rows=None)
        state = self._replaced(state, known.identified())
        rebuild = checkpoint if is_rebuild else 0
        if is_outdated and now is not None:
            return state.with_copy(new_copy(target, now, rebuild=rebuild))
        if before is None:
            return state
        # All rows are read again, so changes of a dropped column no longer affect any row.
        gone = before.definition.gone if now is None or where is not None else now.gone
        copy = replace(before, definition=replace(before.definition, gone=gone), rebuild=rebuild or before.rebuild)
        return state if copy == before else state.with_copy(copy)

    def _begins_empty(self, before: CopyState, now: CopyDefinition | None) -> bool:
        """Return whether the rows of a copy can't be replaced in place, now or before a rebuild that has not ended."""
        is_replaced = now is None or is_replaceable(before.definition, now)
        return not is_replaced or is_rebuild_open(self._storage, before)

    def _copy(self, state: GatewayState, target: QualifiedName) -> CopyState | None:
        return state.copy(target) or copy_elsewhere(self._store, target, self._gateway.name)

    def _with_definition(self, state: GatewayState, table: IngestedTable) -> GatewayState:
        """Return the state with the present definition of a copy.

        A copy with rows of another definition keeps the recorded one: its flows fail, or the source refused a requested
        snapshot. A copy that gets changes only (some may be staged) also keeps it, and a copy whose new snapshot could
        not begin.
        """
        if table.definition is None:
            return state
        before = self._copy(state, table.target)
        after = None if before is None else before.followed_by(table.definition)
        if before is not None and after is None:
            is_staged = has_changes(self._storage, self._gateway.changes)
            is_refused = any(each.target == table.target for each in self._refusals)
            if has_rows(self._storage, table.target) or is_refused or (is_staged and self._is_skipped(table)):
                return state
        return state.with_copy(after or new_copy(table.target, table.definition))

    def _identified(self, state: GatewayState, requests: Mapping[str, Request]) -> GatewayState:
        """Return the state with the tables that were found at the source; the modules refused tables that differ.

        A table with an open request is left out: until its new snapshot begins, its flows may read another table.
        """
        if self._store.request(self._gateway.name).generation > state.log_generation:
            return state
        numbers = {} if self._stored is None else {each.table.key: each.number for each in self._stored.tables}
        tables = (
            each
            if requests.get(each.table.key, Request()).generation > each.number
            or each.number != numbers.get(each.table.key, 0)  # begins in this update, with the table that was found
            else each.identified()
            for each in state.tables
        )
        return replace(state, tables=tuple(tables))

    def _published(self, state: GatewayState, requests: Mapping[str, Request]) -> GatewayState:
        """Publish the tables that have no snapshot; the snapshot flow of any other table publishes its table.

        Without a log, the flow of changes publishes all tables. After a crash the next update finds the table in the
        log.
        """
        tables = [
            each
            for each in state.tables
            if each.is_declared
            and each.table.identity
            and not each.table.is_logged
            and requests.get(each.table.key, Request()).mode in (Mode.SKIPPED, Mode.CANCELLED)
        ]
        for each in tables:
            try:
                published = replace(each, table=self._log.publish(each.table, self._reader))
                # Only a snapshot accepts another table of the same name.
                if published.table.is_logged and each.identity in ("", published.table.identity):
                    state = self._replaced(state, published.identified())
            except SluiceError as error:
                self._refusals.append(Refusal(target=each.table.target, error=error))
        return state

    def _filter(self, state: TableState, request: Request) -> str | None:
        """Return the condition of the new snapshot; None if it replaces an incomplete snapshot.

        With a condition, the remaining rows of the incomplete snapshot would never be read.
        """
        table = state.table
        current = self._checkpoints.current(table.target, table.snapshot_flow)
        return request.where if current is not None and current.completed else None

    def _begin_checkpoints(self, state: GatewayState) -> None:
        changes = self._gateway.changes
        self._begin(changes, changes, state.changes_checkpoint, f"new log {state.log_generation}")
        for each in state.tables:
            if each.current is not None and each.is_declared and not each.current.is_rebuild:
                is_asked = each.table.key not in self._taken_over
                why = _MISSED if each.current.skips_earlier else "was asked for" if is_asked else _TAKEN_OVER
                reason = f"snapshot {each.number} {why}"
                self._begin(each.table.target, each.table.snapshot_flow, each.current.checkpoint, reason)

    def _begin(self, dataset: QualifiedName, flow: QualifiedName, number: int, reason: str) -> None:
        if self._checkpoints.latest_number(dataset, flow) < number:
            self._checkpoints.begin(dataset, flow, reason=reason, number=number)


def _with_open_rows(begun: SnapshotGeneration, request: Request) -> Request:
    """Return a request as one for the next snapshot, if the snapshot that began for it does not read its rows."""
    is_open = begun.where is not None and request.where != begun.where
    return replace(request, generation=begun.number + 1) if is_open and request.generation == begun.number else request


def _open_request(table: TableState, request: Request) -> Request | None:
    """Return the request for the generation of a table that begins now; None without one.

    All rows of a missed table are read again. A request waits while its table has an error: a snapshot could not read
    the table, and the definition of its new rows is unknown.
    """
    if not table.is_declared or not table.table.identity:
        return None
    if _is_read_again(table):
        return Request(generation=table.number + 1)
    return request if request.generation > table.number else None


def _is_read_again(table: TableState) -> bool:
    """Return whether a missed table begins a generation now, because it can be copied."""
    return table.is_declared and table.is_missed and bool(table.table.identity)
