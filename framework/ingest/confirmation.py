"""Snapshots that replace an earlier one: which rows they did not confirm, and when these rows can be deleted.

A row of an older generation that is missing from the complete snapshot was deleted at the source. It can be deleted in
the copy once the changes up to the start of the generation are applied: before, a late change could insert it again. So
three facts are read from checkpoints, without Spark: the snapshot is read to its end, the staged changes have passed
the position, and (by the caller) the change flow of the table has applied them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from framework.checkpoints.generations import Generation, GenerationState, GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.declare.copy_definition import CopiedColumn, CopyDefinition
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import SourceError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.ingest.connections import open_gateway, source_name
from framework.ingest.copy_state import CopyState
from framework.ingest.names import change_flow_name, snapshot_flow_name
from framework.ingest.state import GatewayState, GatewayStore, Request, SnapshotGeneration, TableState
from framework.sources.databases.chunks import read_offset, refuse_other_table
from framework.sources.databases.position import position_of

_LITERAL = re.compile(r"'[^'\\$]*'|-?\d+(?:\.\d+)?")
_COMPARISON = re.compile(
    r"\b(?P<column>[A-Za-z_]\w*)\s*"
    r"(?:(?:<>|!=|<=|>=|=|<|>)\s*(?:LITERAL)(?![\w.:])"
    r"|(?:NOT\s+)?IN\s*\(\s*(?:LITERAL)(?:\s*,\s*(?:LITERAL))*\s*\)"
    r"|(?:NOT\s+)?BETWEEN\s+(?:LITERAL)\s+AND\s+(?:LITERAL)(?![\w.:])"
    r"|IS\s+(?:NOT\s+)?NULL\b)".replace("LITERAL", _LITERAL.pattern),
    re.IGNORECASE,
)
_CHECKED = "\0"
_CONNECTED = re.compile(rf"(?:[\s(){_CHECKED}]|\bAND\b|\bOR\b|\bNOT\b)*", re.IGNORECASE)
_KINDS = (
    (re.compile(r"smallint|integer|bigint"), re.compile(r"-?\d{1,18}")),
    (re.compile(r"date"), re.compile(r"'\d{4}-\d\d-\d\d'")),
)
"""Column types, with the literals that compare alike in Spark and in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """An incomplete snapshot that replaces an earlier one.

    Rows that it did not confirm can be deleted once it is read to its end and the change flow has applied the changes
    that are staged up to its position.

    Args:
        gateway: the gateway.
        table: the table.
        generation: the generation of the snapshot.
        identity: identifies the source table, see `TableState`.
        where: a condition in Spark SQL that selects at least the rows of the snapshot; None for all rows.
        checkpoint: number of the checkpoint generation of the snapshot flow.
        is_read: whether the snapshot is read to its end.
        is_staged: whether the staged changes have passed the position of the generation.
        text_columns: the columns that the copy stores as text, or as arrays of texts.
    """

    gateway: IngestedGateway
    table: IngestedTable
    generation: SnapshotGeneration
    identity: str
    where: str | None
    checkpoint: int
    is_read: bool
    is_staged: bool
    text_columns: frozenset[str] = frozenset()

    @property
    def sequence(self) -> str:
        """The sequence of the snapshot's rows, in SQL."""
        return f"named_struct('generation', {self.generation.number}L, 'position', 0L, 'ordinal', 0L)"

    def missing(self, keys: Sequence[Sequence[str]]) -> list[int]:
        """Return the indexes of the keys that the source does not have, given as the text of its database.

        A row that is inserted after this has a higher position than the generation, so its change wins.

        Raises:
            SourceError: the source can't be read.
        """
        name = source_name(self.table)
        with open_gateway(self.gateway) as source:
            found = source.read_table(name)
            refuse_other_table(name, self.identity, found.identity)
            return source.missing_keys(found, self.table.keys, keys, self.text_columns)


def is_awaited(gateways: Sequence[IngestedGateway], storage: Storage, flow: QualifiedName) -> bool:
    """Return whether a flow reads a snapshot that replaces an earlier one, so that it is complete once confirmed.

    A snapshot into an empty copy has nothing to confirm.
    """
    return any(
        each.table.snapshot_flow == flow and each.current is not None and not each.current.is_rebuild
        for gateway in gateways
        for each in _tables(gateway, storage)
    )


def snapshot_filter(state: TableState, storage: Storage) -> str | None:
    """Return the condition that selects the rows of the current snapshot of a table; None for all rows.

    The condition of a generation applies to its own checkpoint only. A later checkpoint, or the checkpoint of a
    rebuild, reads all rows: its copy does not have the rows that the condition leaves out.
    """
    wanted = state.current
    if wanted is None or wanted.where is None:
        return None
    manifest = GenerationStore(storage).manifest(state.table.target, state.table.snapshot_flow)
    begun, building = (manifest.in_state(each) for each in (GenerationState.CURRENT, GenerationState.BUILDING))
    return wanted.where if begun is not None and begun.number == wanted.checkpoint and building is None else None


def pending_request(storage: Storage, gateway: str, source: str) -> Request | None:
    """Return the request for a snapshot of a source table that has not begun; None without one.

    This includes a request that was made while the table was not declared, or had a copy of another name.
    """
    store = GatewayStore(storage)
    state = store.read(gateway)
    known = None if state is None else state.table(source)
    if state is None or known is None:
        return None
    of_gateway, of_table = store.request(gateway), store.request(gateway, source)
    if of_gateway.generation > state.log_generation:  # reads all rows of each table
        return of_gateway
    return of_table if of_table.generation > known.number else None


def is_pending(storage: Storage, gateway: str, source: str) -> bool:
    """Return whether a snapshot of a source table is requested and has not begun."""
    return pending_request(storage, gateway, source) is not None


def has_rows(storage: Storage, target: QualifiedName) -> bool:
    """Return whether a flow of a copy has planned a batch, so that the copy may have rows.

    Rows of an earlier snapshot count: they stay in the copy until a later snapshot has replaced them.
    """
    generations = GenerationStore(storage)
    return any(
        each.is_present and _has_batch(storage, generations.path(target, flow, each.number))
        for flow in (snapshot_flow_name(target), change_flow_name(target))
        for each in reversed(generations.read(target, flow))
    )


def _has_planned(storage: Storage, target: QualifiedName, flow: QualifiedName) -> bool:
    generations = GenerationStore(storage)
    current = generations.current(target, flow)
    return current is not None and _has_batch(storage, generations.path(target, flow, current.number))


def _has_batch(storage: Storage, checkpoint: str) -> bool:
    return read_progress(storage, checkpoint).last_offset_batch is not None


def has_changes(storage: Storage, changes: QualifiedName) -> bool:
    """Return whether changes may be staged that no copy has applied yet."""
    return _has_planned(storage, changes, changes)


def is_rebuild_open(storage: Storage, copy: CopyState) -> bool:
    """Return whether a copy must begin empty and has not yet."""
    return _is_before(copy.rebuild, GenerationStore(storage).current(copy.target, snapshot_flow_name(copy.target)))


def awaits_rebuild(storage: Storage, copy: CopyState) -> bool:
    """Return whether a copy must begin empty and no rebuild of it runs yet."""
    building = GenerationStore(storage).building(copy.target, snapshot_flow_name(copy.target))
    return is_rebuild_open(storage, copy) and _is_before(copy.rebuild, building)


def _is_before(number: int, generation: Generation | None) -> bool:
    return (0 if generation is None else generation.number) < number


def open_confirmations(gateways: Sequence[IngestedGateway], storage: Storage) -> Iterator[Confirmation]:
    """Yield the incomplete snapshots that replace an earlier one."""
    generations = GenerationStore(storage)
    for gateway in gateways:
        state = GatewayStore(storage).read(gateway.name)
        if state is None:
            continue
        replacing = [each for each in state.tables if each.current is not None and each.is_declared]
        reached = staged_position(state, storage) if replacing else None
        for each in replacing:
            begun, wanted = generations.current(each.table.target, each.table.snapshot_flow), each.current
            if begun is None or wanted is None or begun.completed or begun.number < wanted.checkpoint:
                continue
            where, copy = snapshot_filter(each, storage), state.copy(each.table.target)
            definition = None if copy is None else copy.definition
            yield Confirmation(
                gateway=gateway,
                table=each.table,
                generation=wanted,
                identity=each.identity,
                where=None if where is None else condition_in_spark(where, definition),
                checkpoint=begun.number,
                is_read=_is_read(each.table, begun.number, storage),
                is_staged=reached is not None and reached >= (wanted.log_generation, wanted.position),
                text_columns=frozenset(each.name for each in _columns(definition) if "STRING" in each.type),
            )


def staged_position(state: GatewayState, storage: Storage) -> tuple[int, int] | None:
    """Return the generation of the log and its position up to which changes are staged; None before the first change.

    A damaged offset also gives None: the flow of the changes fails with it.
    """
    generations, changes = GenerationStore(storage), state.gateway.changes
    current = generations.current(changes, changes)
    if current is None or current.number < state.changes_checkpoint:
        return None
    progress = read_progress(storage, generations.path(changes, changes, current.number))
    with suppress(SourceError):
        return next(((state.log_generation, position_of(each).order) for each in progress.sources), None)
    return None


def _columns(definition: CopyDefinition | None) -> tuple[CopiedColumn, ...]:
    """Return the columns of a copy; none if its definition is unknown."""
    return () if definition is None else definition.columns


def _tables(gateway: IngestedGateway, storage: Storage) -> Iterator[TableState]:
    state = GatewayStore(storage).read(gateway.name)
    if state is not None:
        yield from (each for each in state.tables if each.is_declared)


def _is_read(table: IngestedTable, number: int, storage: Storage) -> bool:
    """Return whether a checkpoint generation of a snapshot flow is read to its end."""
    progress = read_progress(storage, GenerationStore(storage).path(table.target, table.snapshot_flow, number))
    with suppress(SourceError):  # a damaged offset; the flow fails with it
        offsets = [read_offset(offset) for offset in progress.sources]
        return progress.is_settled and bool(offsets) and all(each is not None and each.finished for each in offsets)
    return False


def condition_in_spark(where: str, definition: CopyDefinition | None) -> str:
    """Return a condition in Spark SQL for at least the rows of a copy that a condition of the database selects.

    Many texts mean different things in the two dialects: `"a" = 'x'`, `id / 10 = 2`, `flag = 'on'`, and any comparison
    of decimals (Spark rounds values of more than 38 digits), of texts (a collation may treat two of them as equal) or
    of times with a zone. So only comparisons of whole numbers and dates with literals of their type are translated. Any
    other condition becomes `true`.

    Args:
        where: a condition that the database accepts.
        definition: how the rows of the copy are made; None if that is unknown.
    """
    columns = {} if definition is None else {column.name: column for column in definition.columns}

    def checked(match: re.Match[str]) -> str:
        column = columns.get(match["column"].lower())
        return _CHECKED if column is not None and _is_alike(column, match) else match[0]

    return where if _CONNECTED.fullmatch(_COMPARISON.sub(checked, where)) else "true"


def _is_alike(column: CopiedColumn, comparison: re.Match[str]) -> bool:
    literals = _LITERAL.findall(comparison[0], comparison.end("column") - comparison.start())
    known = (literal for kind, literal in _KINDS if kind.fullmatch(column.source_type) and column.type != "STRING")
    literal = next(known, None)
    return literal is not None and all(map(literal.fullmatch, literals))
