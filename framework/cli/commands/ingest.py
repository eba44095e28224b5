"""`sluice ingest`: gateways and the tables that they copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.verbosity import verbose_option
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.cli.pipeline_port import PipelinePort
    from framework.declare.specs import IngestedGateway, IngestedTable
    from framework.ingest.operations import GatewayTables, Operations
    from framework.ingest.status import GatewayStatus

_WATCH_SECONDS = 2.0
_NEXT_START = "Takes effect when its flows start again, at the latest with the next update."
_NEXT_UPDATE = "Takes effect with the next update; stop a continuous one and start it again."

_gateway_option = click.option("--gateway", metavar="NAME", help="Name of the gateway.  [default: the only one]")


@click.group("ingest")
@verbose_option
def command() -> None:
    """Check, observe and operate the copies of databases."""


@command.command("preflight", cls=SluiceCommand)
@pipeline_options(result=True, parameters=True)
def preflight(call: Call) -> None:
    """Check the databases before anything is read or written there.

    Prints what is missing for each declared table, with the statement that mends it. The exit code is 1 if an update
    would fail or miss rows.
    """
    from framework.ingest.tables.preflight import check_ingestions
    from framework.views.ingestion import preflight_json, preflight_table

    pipeline = call.pipeline()
    if not pipeline.ingestions:
        raise UserError("INGESTION_NONE")
    results = check_ingestions(pipeline.ingestions, Path(pipeline.spec.root or "."))
    if call.output.as_json:
        call.output.json(preflight_json(results))
    else:
        for each in results:
            call.output.text(f"{each.gateway}: {len(each.tables)} tables, findings: {len(each.findings)}")
            if each.findings:
                call.output.text(call.output.formatted(preflight_table(each.findings)))
    if any(each.has_failed for each in results):
        raise click.exceptions.Exit(1)


@command.command("status", cls=SluiceCommand)
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C; redraws on a terminal.")
@_gateway_option
@pipeline_options(result=True)
def status(call: Call, /, *, watch: bool, gateway: str | None) -> None:
    """Print the state, progress and lag of each table.

    Reads checkpoints and asks the source; does not start Spark if the storage is local.
    """
    from framework.ingest.status import read_status

    storage, clock = call.pipeline().storage, call.surroundings.clock

    def read() -> tuple[GatewayStatus, ...]:
        return read_status(storage, clock.now(), gateway)

    found = read()
    _print_status(call, found)
    try:
        while watch:
            clock.sleep(_WATCH_SECONDS)
            before, found = found, read()
            _print_again(call, before, found)
    except KeyboardInterrupt:
        return


@command.command("pause", cls=SluiceCommand)
@click.argument("table", required=False)
@_gateway_option
@pipeline_options()
def pause(call: Call, /, *, table: str | None, gateway: str | None) -> None:
    """Stop the flows of TABLE, or of the whole gateway.

    The changes of a paused table are still staged. A paused gateway makes the server keep its log.
    """
    operating = _Operating(call)
    found, only = operating.named(table, gateway)
    operating.operations.pause(found, only)
    call.output.text(f"{found.name if only is None else only.source} is paused. {_NEXT_START}")


@command.command("resume", cls=SluiceCommand)
@click.argument("table", required=False)
@_gateway_option
@pipeline_options()
def resume(call: Call, /, *, table: str | None, gateway: str | None) -> None:
    """Continue TABLE, or the whole gateway, where it was.

    Undoes `pause`, `cancel` and `skip-snapshot`.
    """
    operating = _Operating(call)
    found, only = operating.named(table, gateway)
    operating.operations.resume(found, only)
    call.output.text(f"{found.name if only is None else only.source} continues. {_NEXT_START}")


@command.command("cancel", cls=SluiceCommand)
@click.argument("table")
@_gateway_option
@pipeline_options()
def cancel(call: Call, /, *, table: str, gateway: str | None) -> None:
    """End the snapshot of TABLE where it is.

    Its changes are applied. `resume` continues the snapshot.
    """
    operating = _Operating(call)
    found, only = operating.tables.table(table, gateway)
    operating.operations.cancel(found, only)
    call.output.text(f"The snapshot of {only.source} is cancelled. {_NEXT_START}")


@command.command("skip-snapshot", cls=SluiceCommand)
@click.argument("table")
@_gateway_option
@pipeline_options()
def skip_snapshot(call: Call, /, *, table: str, gateway: str | None) -> None:
    """Take no snapshot of TABLE, because its rows were loaded before.

    Its changes are applied.
    """
    operating = _Operating(call)
    found, only = operating.tables.table(table, gateway)
    operating.operations.skip_snapshot(found, only)
    call.output.text(f"{only.source} gets no snapshot. {_NEXT_START}")


@command.command("resync", cls=SluiceCommand)
@click.argument("table", required=False)
@click.option("--where", metavar="FILTER", help="Only rows that meet this condition at the source.")
@click.option("--all", "all_tables", is_flag=True, help="All tables of the gateway.")
@click.option("--new-slot", is_flag=True, help="With --all: drop the replication slot and create a new one.")
@_gateway_option
@pipeline_options()
def resync(
    call: Call, /, *, table: str | None, where: str | None, all_tables: bool, new_slot: bool, gateway: str | None
) -> None:
    """Read TABLE again, while the others keep flowing.

    The copy stays readable. At the end, rows that are gone at the source are deleted, or closed for SCD type 2.
    """
    if (table is None) != all_tables or (new_slot and not all_tables) or (where is not None and all_tables):
        raise UserError("INGESTION_RESYNC_OPTIONS")
    operating = _Operating(call)
    if table is not None:
        found, only = operating.tables.table(table, gateway)
        request = operating.operations.resync(found, only, where)
        rows = "All rows of " if where is not None and request.where is None else ""
        call.output.text(f"{rows}{only.source} {'are' if rows else 'is'} read again. {_NEXT_UPDATE}")
        return
    found = operating.tables.gateway(gateway)
    if new_slot:
        operating.operations.replace_position(found)
    else:
        for each in found.tables:
            operating.operations.resync(found, each, None)
    slot = f" from a new slot {found.position_name}" if new_slot else ""
    call.output.text(f"All {len(found.tables)} tables of {found.name} are read again{slot}. {_NEXT_UPDATE}")


class _Operating:
    """The gateways of a call's pipeline: those that the last update had, else those that the code declares."""

    def __init__(self, call: Call) -> None:
        from framework.ingest.operations import GatewayTables, Operations
        from framework.ingest.state import GatewayStore

        pipeline: PipelinePort = call.pipeline()
        states = GatewayStore(pipeline.storage).read_all()
        recorded = tuple(state.gateway for state in states if state.is_declared)
        self.tables: GatewayTables = GatewayTables(gateways=recorded or pipeline.gateways)
        self.operations: Operations = Operations(storage=pipeline.storage)

    def named(self, table: str | None, gateway: str | None) -> tuple[IngestedGateway, IngestedTable | None]:
        """Return the gateway and the table of a command; without a table, the gateway and None."""
        return (self.tables.gateway(gateway), None) if table is None else self.tables.table(table, gateway)


def _print_status(call: Call, found: tuple[GatewayStatus, ...]) -> None:
    from framework.views.ingestion import status_head, status_json, status_table

    if call.output.as_json:
        call.output.json(status_json(found))
        return
    if not found:
        call.output.text("No update has run a gateway yet.")
    for each in found:
        call.output.text(status_head(each))
        call.output.text(call.output.formatted(status_table(each)))


def _print_again(call: Call, before: tuple[GatewayStatus, ...], found: tuple[GatewayStatus, ...]) -> None:
    """Redraw the tables on a terminal; elsewhere print a line for each table that has changed."""
    from framework.views.ingestion import status_json

    if call.output.as_json:
        call.output.json_line(status_json(found))
    elif call.output.stream.isatty():
        click.clear()
        _print_status(call, found)
    else:
        known = _lines(before)
        for line in (line for line in _lines(found) if line not in known):
            call.output.line(line)


def _lines(found: tuple[GatewayStatus, ...]) -> list[str]:
    from framework.views.ingestion import status_lines

    return [line for each in found for line in status_lines(each)]
