"""Commands of operators for gateways and tables: pause, resume, cancel, skip, resync. They only write requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from framework.checkpoints.generations import GenerationStore
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.nearest import is_named, nearest_qualified, plain_name
from framework.ingest.confirmation import is_rebuild_open
from framework.ingest.connections import open_gateway, source_name
from framework.ingest.gaps import way_out_of
from framework.ingest.gateway_status import NEW_SLOT
from framework.ingest.state import GatewayStore, Mode, Request
from framework.ingest.status import gap_of_table
from framework.ingest.tables.copies import PARTITIONS_CHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTables:
    """The gateways of a pipeline, and the lookup of their tables by name.

    Args:
        gateways: the gateways.
    """

    gateways: tuple[IngestedGateway, ...]

    def gateway(self, name: str | None) -> IngestedGateway:
        """Return the gateway with a name; without a name, the only gateway.

        Raises:
            UserError: INGESTION_NONE, INGESTION_GATEWAY_UNKNOWN, INGESTION_GATEWAY_AMBIGUOUS.
        """
        known = ", ".join(each.name for each in self.gateways)
        if not self.gateways:
            raise UserError("INGESTION_NONE")
        if name is None:
            if len(self.gateways) > 1:
                raise UserError("INGESTION_GATEWAY_AMBIGUOUS", known=known)
            return self.gateways[0]
        for each in self.gateways:
            if each.name == name:
                return each
        near = nearest_qualified(name, [each.name for each in self.gateways])
        raise UserError("INGESTION_GATEWAY_UNKNOWN", name=name, known=known, hint=_hint(near))

    def table(self, name: str, gateway: str | None = None) -> tuple[IngestedGateway, IngestedTable]:
        """Return the table with a name: the name of the source or of its copy, optionally without catalog and schema.

        Raises:
            UserError: INGESTION_TABLE_UNKNOWN with the nearest name, INGESTION_TABLE_AMBIGUOUS; the errors of
                `gateway`.
        """
        if gateway is not None or not self.gateways:
            within: tuple[IngestedGateway, ...] = (self.gateway(gateway),)
        else:
            within = self.gateways
        pairs = [(each, table) for each in within for table in each.tables]
        found = [pair for pair in pairs if pair[1].source == name] or [
            pair for pair in pairs if _is_copy(pair[1], name)
        ]
        if len(found) == 1:
            return found[0]
        raise _not_found(name, [table for _, table in (found or pairs)], is_ambiguous=bool(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Writes the requests of an operator.

    Args:
        storage: the pipeline's storage.
    """

    storage: Storage

    def pause(self, gateway: IngestedGateway, table: IngestedTable | None) -> None:
        """Stop the flows of a table, or of a gateway; the changes of a paused table are still staged."""
        self._set_mode(gateway, table, Mode.PAUSED)

    def resume(self, gateway: IngestedGateway, table: IngestedTable | None) -> None:
        """Let the flows of a table, or of a gateway, continue; undoes pause, cancel and skip."""
        self._set_mode(gateway, table, Mode.ACTIVE)

    def cancel(self, gateway: IngestedGateway, table: IngestedTable) -> None:
        """End the snapshot of a table where it is; its changes are applied.

        Raises:
            UserError: INGESTION_SNAPSHOT_COMPLETE, INGESTION_SNAPSHOT_OF_REBUILD.
        """
        self._check_open(gateway, table)
        self._set_mode(gateway, table, Mode.CANCELLED)

    def skip_snapshot(self, gateway: IngestedGateway, table: IngestedTable) -> None:
        """Take no snapshot of a table; its changes are applied.

        Raises:
            UserError: INGESTION_SNAPSHOT_COMPLETE, INGESTION_SNAPSHOT_OF_REBUILD.
        """
        self._check_open(gateway, table)
        self._set_mode(gateway, table, Mode.SKIPPED)

    def resync(self, gateway: IngestedGateway, table: IngestedTable, where: str | None) -> Request:
        """Read a table again; rows that no longer exist at the source are deleted at the end.

        A request that has not begun yet is kept: the next snapshot reads the rows of both requests.

        Args:
            gateway: the gateway.
            table: the table.
            where: a condition at the source that selects the rows; None for all.

        Returns:
            The combined request.

        Raises:
            UserError: INGESTION_NOT_STARTED, INGESTION_RESYNC_NEEDS_ALL_ROWS, INGESTION_RESYNC_OF_FILTERED_ROWS.
            SourceError: SNAPSHOT_ROW_FILTER_INVALID, or the database can't be read; with a condition only.
        """
        number = self._begun(gateway, table)
        named = "" if where is None else check_partial_resync(self.storage, gateway, table, where)
        store = GatewayStore(self.storage)
        while True:
            follow = partial(_asked, begun=number, where=where, accepted=named)
            request = store.change_request(follow, gateway.name, table.key)
            # An update may have begun the earlier request; if it begins it right now, it reopens this one.
            number = self._begun(gateway, table)
            if number < request.generation:
                return request

    def _begun(self, gateway: IngestedGateway, table: IngestedTable) -> int:
        """Return the number of the last snapshot of a table that has begun."""
        state = GatewayStore(self.storage).read(gateway.name)
        known = None if state is None else state.table(table.key)
        if known is None:
            raise UserError("INGESTION_NOT_STARTED", name=table.source)
        return known.number

    def replace_position(self, gateway: IngestedGateway) -> None:
        """Begin the log at a new position, and read all tables of the gateway again, even tables without a snapshot.

        Raises:
            UserError: INGESTION_NOT_STARTED.
        """
        store = GatewayStore(self.storage)
        state = store.read(gateway.name)
        if state is None:
            raise UserError("INGESTION_NOT_STARTED", name=gateway.name)
        for source in store.table_requests(gateway.name):  # changes of a table without a snapshot are lost, too
            store.change_request(lambda before: before.with_snapshot, gateway.name, source)
        number = state.log_generation + 1
        store.change_request(lambda before: replace(before, generation=number), gateway.name)

    def _set_mode(self, gateway: IngestedGateway, table: IngestedTable | None, mode: Mode) -> None:
        key = None if table is None else table.key
        GatewayStore(self.storage).change_request(lambda before: replace(before, mode=mode), gateway.name, key)

    def _check_open(self, gateway: IngestedGateway, table: IngestedTable) -> None:
        generations, state = GenerationStore(self.storage), GatewayStore(self.storage).read(gateway.name)
        copy = None if state is None else state.copy(table.target)
        is_asked = copy is not None and is_rebuild_open(self.storage, copy)
        if is_asked or generations.building(table.target, table.snapshot_flow) is not None:
            raise UserError("INGESTION_SNAPSHOT_OF_REBUILD", table=table.source)
        current = generations.current(table.target, table.snapshot_flow)
        if current is not None and current.completed:
            raise UserError("INGESTION_SNAPSHOT_COMPLETE", table=table.source)


def _asked(before: Request, *, begun: int, where: str | None, accepted: str) -> Request:
    """Return the request for rows that replaces an earlier request; `begun` is the last snapshot that has begun."""
    is_pending = where is not None and before.generation > begun
    wanted = _either(before.where, where) if where is not None and is_pending else where
    accepted = accepted or (before.accepted if is_pending else "")
    return Request(mode=before.with_snapshot.mode, generation=begun + 1, where=wanted, accepted=accepted)


def _either(first: str | None, second: str) -> str | None:
    """Return a condition that selects the rows of both requests; None for all rows."""
    if first is None or first == second:
        return first
    return f"({first}\n) OR ({second}\n)"  # each may end in a comment


def _is_copy(table: IngestedTable, name: str) -> bool:
    return is_named(str(table.target), plain_name(name))


def _not_found(name: str, tables: Sequence[IngestedTable], *, is_ambiguous: bool) -> UserError:
    if is_ambiguous:
        listed = ", ".join(f"{table.source} ({table.target})" for table in tables)
        return UserError("INGESTION_TABLE_AMBIGUOUS", name=name, tables=listed)
    known = [text for table in tables for text in (table.source, str(table.target))]
    return UserError("INGESTION_TABLE_UNKNOWN", name=name, hint=_hint(nearest_qualified(name, known)))


def _hint(near: str | None) -> str:
    return f" Did you mean `{near}`?" if near else ""


def check_partial_resync(storage: Storage, gateway: IngestedGateway, table: IngestedTable, where: str) -> str:
    """Refuse a condition that the database rejects, or that may miss changed rows of a table; no row is read.

    Rows that came or went without an entry in the log can be selected only if an error named them to the operator.
    Later such rows are unknown.

    Args:
        storage: the storage of the pipeline.
        gateway: the gateway.
        table: the table.
        where: one condition in the SQL of the database.

    Returns:
        The continuity of the table up to which the error of the last update names the rows that came or went; empty for
        a table without such a gap.

    Raises:
        UserError: INGESTION_RESYNC_NEEDS_ALL_ROWS for a table with any other gap; INGESTION_RESYNC_OF_FILTERED_ROWS.
        SourceError: SNAPSHOT_ROW_FILTER_INVALID, or the database can't be read.
    """
    gap, state = gap_of_table(storage, gateway.name, table.key), GatewayStore(storage).read(gateway.name)
    known = None if state is None else state.table(table.key)
    named = known.named_continuity if known is not None and gap == PARTITIONS_CHANGED else ""
    name = gateway.name_of(table)
    command = NEW_SLOT if way_out_of(gap, name, "") == NEW_SLOT else f"sluice ingest resync {name}"
    if gap is not None and not named:
        raise UserError("INGESTION_RESYNC_NEEDS_ALL_ROWS", table=table.source, gap=gap, command=command)
    copy = None if state is None else state.copy(table.target)
    if copy is not None and copy.definition.row_filter is not None:
        row_filter = copy.definition.row_filter
        raise UserError("INGESTION_RESYNC_OF_FILTERED_ROWS", table=table.source, filter=row_filter, command=command)
    _check_by_database(gateway, table, where)
    return named


def _check_by_database(gateway: IngestedGateway, table: IngestedTable, where: str) -> None:
    """Let the database check a condition."""
    with open_gateway(gateway) as source:
        source.check_filter(source_name(table), where)
