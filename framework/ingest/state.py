"""The durable state of gateways: the positions at which snapshot generations start, and the requests of operators.

There are two kinds of files for two writers. An update writes `gateway.json` while it holds the lock of updates. The
commands of `sluice ingest` write one file per table below `requests/`, at any time. Both are replaced atomically, and
only one process writes each version of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from framework.declare.copy_definition import StagedForm
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.files.versioned_files import newest_versions, read_newest, replace_version
from framework.foundation.names import QualifiedName
from framework.ingest.copy_state import CopyState, ReadRows, copy_of_json, staged_of_json
from framework.ingest.names import file_name, name_json, name_of_json

_FORMAT = StoredFormat(1)
_ROOT = "ingest"
_GATEWAY = "gateway.json"
_REQUESTS = "requests"
_WHOLE_GATEWAY = "gateway-request.json"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGeneration:
    """One snapshot of a table, and the changes that belong to it.

    A change belongs to the newest generation that starts at or before it. So the generation of a change depends on
    the change and on this list only: it is the same whenever and however often the change is applied.

    Args:
        number: from 1; the first snapshot of a table has the number 0 and no entry.
        log_generation: number of the log of the changes.
        position: the position of the generation's first change in its log.
        checkpoint: number of the checkpoint generation of the snapshot flow.
        where: a condition at the source that selects the rows of the snapshot; None for all rows.
        is_rebuild: whether it begins with an empty copy, because older rows have another definition. The rebuild of the
            copy then begins its checkpoint.
        skips_earlier: whether unapplied changes of earlier generations are skipped for good, because some of them were
            staged while the table was missed.
        log: the server of the position, until the changes are read up to it; empty if successors share its positions.
    """

    number: int
    log_generation: int
    position: int
    checkpoint: int
    where: str | None = None
    is_rebuild: bool = False
    skips_earlier: bool = False
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A table of a gateway.

    Args:
        table: the table, as last declared.
        generations: its snapshots after the first one, in ascending order.
        is_declared: whether the last update copied it.
        is_missed: whether changes may be staged in a form that does not fit the copy, because an update did not have
            the table among its tables, or the table has another copy now. Reset when a new generation begins.
        staged: how its changes are staged; None before an update could copy it.
        identity: identifies the source table of the newest generation in its database, so that a replacement with the
            same name is detected. Empty before an update could copy it.
        continuity: the continuity of the table in the last update that could copy it, as text of the dialect; empty
            before.
        named_continuity: the continuity up to which the error of the last update names the rows that came or went;
            empty without such an error.
        read_rows: the rows of the snapshot; None before its end, and if successors share the positions of the log.
    """

    table: IngestedTable
    generations: tuple[SnapshotGeneration, ...] = ()
    is_declared: bool = True
    is_missed: bool = False
    staged: StagedForm | None = None
    identity: str = field(default="", repr=False)
    continuity: str = field(default="", repr=False)
    named_continuity: str = field(default="", repr=False)
    read_rows: ReadRows | None = None

    def identified(self) -> TableState:
        """Return the state with the table that was found at the source, if it could be copied."""
        found = self.table
        return replace(self, identity=found.identity, continuity=found.continuity) if found.identity else self

    @property
    def current(self) -> SnapshotGeneration | None:
        """The newest generation; None for the first snapshot."""
        return self.generations[-1] if self.generations else None

    @property
    def number(self) -> int:
        """The number of the newest generation."""
        return self.generations[-1].number if self.generations else 0

    @property
    def newest_complete(self) -> int:
        """The number of the newest generation that reads all rows; 0 for the first snapshot."""
        return max((each.number for each in self.generations if each.where is None), default=0)

    @property
    def oldest_kept(self) -> int:
        """The number of the oldest generation whose changes are still applied."""
        return max((each.number for each in self.generations if each.is_rebuild or each.skips_earlier), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """A gateway, as the last update left it.

    Args:
        gateway: the gateway, as last declared; its tables are in `tables`.
        log_generation: number of the log, which a new position begins; 0 for the first.
        changes_checkpoint: number of the first checkpoint generation of the change flow that reads this log.
        tables: the tables, including tables that are no longer declared.
        copies: how the rows of copies were made, including copies that are no longer declared.
        storage: the storage whose updates read the log, with its identity; empty without one.
        is_declared: whether the last update had an ingestion of this name.
        reader: the storage that the database records as the reader of the log: its root, and its first id.
    """

    gateway: IngestedGateway
    log_generation: int = 0
    changes_checkpoint: int = 0
    tables: tuple[TableState, ...] = ()
    copies: tuple[CopyState, ...] = ()
    storage: str = ""
    is_declared: bool = True
    reader: str = ""

    def table(self, key: str) -> TableState | None:
        """Return the state of a source table, by the key of its copy; None if it is unknown."""
        return next((each for each in self.tables if each.table.key == key), None)

    def copy(self, target: QualifiedName) -> CopyState | None:
        """Return how the rows of a copy were made; None before the first update of the copy."""
        return next((each for each in self.copies if each.target == target), None)

    def with_copy(self, copy: CopyState) -> GatewayState:
        """Return the state with the state of one copy replaced."""
        return replace(self, copies=(*(each for each in self.copies if each.target != copy.target), copy))

    @property
    def position(self) -> int:
        """The position that the change flow must pass before all generations of this log can be completed."""
        current = (each.current for each in self.tables if each.is_declared)
        return max(
            (each.position for each in current if each and each.log_generation == self.log_generation), default=0
        )


class Mode(StrEnum):
    """The mode in which an operator runs a table or a whole gateway."""

    ACTIVE = "active"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    """The snapshot ends where it is; changes are applied."""
    SKIPPED = "skipped"
    """There is no snapshot; changes are applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of an operator for a table or a whole gateway.

    Args:
        mode: which of snapshot and changes to run.
        generation: the requested generation of the snapshot; for a gateway, the requested generation of the log.
        where: a condition at the source that selects the rows to read again; None for all.
        accepted: the continuity of the table up to which `where` selects the rows that came or went without an entry in
            the log, because an error named them to the operator; empty without such rows.
    """

    mode: Mode = Mode.ACTIVE
    generation: int = 0
    where: str | None = None
    accepted: str = ""

    @property
    def ends_gaps(self) -> bool:
        """Whether the snapshot reads every row that lost changes may have affected."""
        return self.where is None or bool(self.accepted)

    @property
    def with_snapshot(self) -> Request:
        """Return the request with a snapshot, even if the snapshot was cancelled or skipped."""
        return self if self.mode is Mode.PAUSED else replace(self, mode=Mode.ACTIVE)


class GatewayStore:
    """Reads and writes the state of the gateways of a storage, without Spark.

    Args:
        storage: the pipeline's storage.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def names(self) -> list[str]:
        """Return the folders of all gateways that an update has run."""
        root = self._storage.path(_ROOT)
        return [name for name in self._storage.list_names(root) if self._read(name, _GATEWAY) is not None]

    def read_all(self) -> tuple[GatewayState, ...]:
        """Return all gateways that an update has run, by name."""
        states = (self.read(name) for name in self.names())
        return tuple(state for state in states if state is not None)

    def read(self, gateway: str) -> GatewayState | None:
        """Return a gateway; None before its first update.

        Raises:
            OperationError: INGESTION_STATE_DAMAGED, STORED_FORMAT_UNKNOWN.
        """
        text = self._read(gateway, _GATEWAY)
        return None if text is None else self._parsed(gateway, _GATEWAY, text, _gateway_state)

    def write(self, state: GatewayState) -> None:
        """Replace the state of a gateway."""
        self._write(state.gateway.name, _GATEWAY, _gateway_json(state))

    def request(self, gateway: str, source: str | None = None) -> Request:
        """Return the request for a source table; for the whole gateway if `source` is None.

        Raises:
            OperationError: INGESTION_STATE_DAMAGED, STORED_FORMAT_UNKNOWN.
        """
        return self._request(gateway, source)[1]

    def is_paused(self, gateway: str, source: str) -> bool:
        """Whether no flow of a table runs, because the table or its whole gateway is paused."""
        return Mode.PAUSED in (self.request(gateway).mode, self.request(gateway, source).mode)

    def table_requests(self, gateway: str) -> dict[str, Request]:
        """Return the request of each source table that ever had one."""
        folder = self._path(gateway, _REQUESTS)
        found = {}
        for name in newest_versions(self._storage.list_names(folder)):
            text = read_newest(self._storage, folder, name)[1]
            if text is not None:
                source, request = self._parsed(gateway, f"{_REQUESTS}/{name}", text, _table_request)
                if source is not None:
                    found[source] = request
        return found

    def ask(self, request: Request, gateway: str, source: str | None = None) -> None:
        """Replace the request for a source table; for the whole gateway if `source` is None."""
        self.change_request(lambda _: request, gateway, source)

    def change_request(self, change: Callable[[Request], Request], gateway: str, source: str | None = None) -> Request:
        """Change the request for a source table, or for the whole gateway, without losing changes of other processes.

        Args:
            change: returns the new request for the present one; called again if another process wrote first.
            gateway: the gateway.
            source: the source table; None for the whole gateway.
        """
        folder, _, name = self._path(gateway, _request_file(source)).rpartition("/")
        while True:
            version, before = self._request(gateway, source)
            after = change(before)
            text = _FORMAT.text({"source": source, **asdict(after)}, indent=1)
            if after == before or replace_version(self._storage, folder, name, version, text):
                return after

    def _request(self, gateway: str, source: str | None) -> tuple[int, Request]:
        """Return the newest version of a request, and the request."""
        path = self._path(gateway, _request_file(source))
        folder, _, name = path.rpartition("/")
        version, text = read_newest(self._storage, folder, name)
        if text is None:
            return version, Request()
        return version, self._parsed(gateway, _request_file(source), text, _table_request)[1]

    def _read(self, gateway: str, name: str) -> str | None:
        return self._storage.read_text(self._path(gateway, name))

    def _write(self, gateway: str, name: str, value: Mapping[str, Any]) -> None:
        self._storage.write_text(self._path(gateway, name), _FORMAT.text(value, indent=1))

    def _path(self, gateway: str, name: str) -> str:
        return self._storage.path(_ROOT, file_name(gateway), *name.split("/"))

    def _parsed(self, gateway: str, name: str, text: str, parse: Callable[[str, str], _Value]) -> _Value:
        path = self._path(gateway, name)
        try:
            return parse(text, path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"it has a missing or malformed field: {error}"
            raise OperationError("INGESTION_STATE_DAMAGED", path=path, problem=problem) from error


def copy_elsewhere(store: GatewayStore, target: QualifiedName, gateway: str) -> CopyState | None:
    """Return how another gateway made the rows of a copy; None if no other gateway did."""
    others = (state.copy(target) for state in store.read_all() if state.gateway.name != gateway)
    return next((each for each in others if each is not None), None)


def _request_file(source: str | None) -> str:
    return _WHOLE_GATEWAY if source is None else f"{_REQUESTS}/{file_name(source)}.json"


def _table_request(text: str, path: str) -> tuple[str | None, Request]:
    """Return a source table and its request; the table is None for the whole gateway."""
    value = _FORMAT.content(text, path)
    request = Request(
        mode=Mode(value["mode"]),
        generation=int(value["generation"]),
        where=value["where"],
        accepted=value["accepted"],
    )
    return value["source"], request


def _gateway_json(state: GatewayState) -> dict[str, Any]:
    gateway = state.gateway
    return {
        "name": gateway.name,
        "connection": gateway.connection,
        "folder": gateway.folder,
        "scheme": gateway.scheme,
        "position_name": gateway.position_name,
        "table_list": gateway.table_list,
        "changes": name_json(gateway.changes),
        "log_generation": state.log_generation,
        "changes_checkpoint": state.changes_checkpoint,
        "tables": [_table_json(each) for each in state.tables],
        "copies": [each.to_json() for each in state.copies],
        "storage": state.storage,
        "is_declared": state.is_declared,
        "reader": state.reader,
    }


def _table_json(state: TableState) -> dict[str, Any]:
    table = state.table
    return {
        "source": [table.source_schema, table.source_table],
        "target": name_json(table.target),
        "copy_name": table.copy_name,
        "flows": [name_json(table.snapshot_flow), name_json(table.cdc_flow)],
        "keys": list(table.keys),
        "declared": state.is_declared,
        "missed": state.is_missed,
        "staged": None if state.staged is None else asdict(state.staged),
        "identity": state.identity,
        "continuity": state.continuity,
        "named_continuity": state.named_continuity,
        "read_rows": None if state.read_rows is None else asdict(state.read_rows),
        "generations": [
            {
                "number": each.number,
                "log_generation": each.log_generation,
                "position": each.position,
                "checkpoint": each.checkpoint,
                "where": each.where,
                "rebuild": each.is_rebuild,
                "skips_earlier": each.skips_earlier,
                "log": each.log,
            }
            for each in state.generations
        ],
    }


@lru_cache(maxsize=8)  # each flow of an update reads the file, which names all tables
def _gateway_state(text: str, path: str) -> GatewayState:
    value = _FORMAT.content(text, path)
    tables = tuple(_table_state(each) for each in value["tables"])
    gateway = IngestedGateway(
        name=value["name"],
        connection=value["connection"],
        folder=value["folder"],
        scheme=value["scheme"],
        position_name=value["position_name"],
        table_list=value["table_list"],
        changes=name_of_json(value["changes"]),
        tables=tuple(each.table for each in tables if each.is_declared),
    )
    return GatewayState(
        gateway=gateway,
        log_generation=int(value["log_generation"]),
        changes_checkpoint=int(value["changes_checkpoint"]),
        tables=tables,
        copies=tuple(map(copy_of_json, value["copies"])),
        storage=str(value["storage"]),
        is_declared=bool(value["is_declared"]),
        reader=str(value["reader"]),
    )


def _table_state(value: Mapping[str, Any]) -> TableState:
    schema, table = value["source"]
    return TableState(
        table=IngestedTable(
            source_schema=schema,
            source_table=table,
            target=name_of_json(value["target"]),
            snapshot_flow=name_of_json(value["flows"][0]),
            cdc_flow=name_of_json(value["flows"][1]),
            keys=tuple(value["keys"]),
            copy_name=str(value["copy_name"]),
        ),
        generations=tuple(
            SnapshotGeneration(
                number=int(each["number"]),
                log_generation=int(each["log_generation"]),
                position=int(each["position"]),
                checkpoint=int(each["checkpoint"]),
                where=each["where"],
                is_rebuild=bool(each["rebuild"]),
                skips_earlier=bool(each["skips_earlier"]),
                log=str(each.get("log", "")),
            )
            for each in value["generations"]
        ),
        is_declared=bool(value["declared"]),
        is_missed=bool(value["missed"]),
        staged=staged_of_json(value["staged"]),
        identity=str(value["identity"]),
        continuity=str(value["continuity"]),
        named_continuity=str(value["named_continuity"]),
        read_rows=None if value.get("read_rows") is None else ReadRows(**value["read_rows"]),
    )
