"""`sluice ingest`: gateways and the tables that they copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.verbosity import verbose_option
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.ingest.gateway_status import GatewayStatus
    from framework.operations.ingestion import GatewayOperator

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
    from framework.operations.ingestion import check_databases
    from framework.views.ingestion import preflight_json, preflight_table

    results = check_databases(call.pipeline())
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
    named = _operator(call).pause(table, gateway)
    call.output.text(f"{named.name} is paused. {_NEXT_START}")


@command.command("resume", cls=SluiceCommand)
@click.argument("table", required=False)
@_gateway_option
@pipeline_options()
def resume(call: Call, /, *, table: str | None, gateway: str | None) -> None:
    """Continue TABLE, or the whole gateway, where it was.

    Undoes `pause`, `cancel` and `skip-snapshot`.
    """
    named = _operator(call).resume(table, gateway)
    call.output.text(f"{named.name} continues. {_NEXT_START}")


@command.command("cancel", cls=SluiceCommand)
@click.argument("table")
@_gateway_option
@pipeline_options()
def cancel(call: Call, /, *, table: str, gateway: str | None) -> None:
    """End the snapshot of TABLE where it is.

    Its changes are applied. `resume` continues the snapshot.
    """
    named = _operator(call).cancel(table, gateway)
    call.output.text(f"The snapshot of {named.name} is cancelled. {_NEXT_START}")


@command.command("skip-snapshot", cls=SluiceCommand)
@click.argument("table")
@_gateway_option
@pipeline_options()
def skip_snapshot(call: Call, /, *, table: str, gateway: str | None) -> None:
    """Take no snapshot of TABLE, because its rows were loaded before.

    Its changes are applied.
    """
    named = _operator(call).skip_snapshot(table, gateway)
    call.output.text(f"{named.name} gets no snapshot. {_NEXT_START}")


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
    operator = _operator(call)
    if table is not None:
        named = operator.resync(table, where, gateway)
        rows = "All rows of " if where is not None and not named.has_filter else ""
        call.output.text(f"{rows}{named.name} {'are' if rows else 'is'} read again. {_NEXT_UPDATE}")
        return
    found = operator.resync_all(gateway, new_slot=new_slot).gateway
    slot = f" from a new slot {found.position_name}" if new_slot else ""
    call.output.text(f"All {len(found.tables)} tables of {found.name} are read again{slot}. {_NEXT_UPDATE}")


def _operator(call: Call) -> GatewayOperator:
    from framework.operations.ingestion import GatewayOperator

    return GatewayOperator(call.pipeline())


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
    """Redraw the tables on a terminal; elsewhere, print one line for each changed table."""
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
