"""`sluice session`: a JVM that stays ready for the commands of this folder."""

from __future__ import annotations

import os
from pathlib import Path

import click

from framework.cli.call import master_option, output_option
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output
from framework.cli.verbosity import verbose_option
from framework.foundation.clock import SystemClock


@click.group("session")
@verbose_option
def command() -> None:
    """Keep Spark ready for the commands of this folder."""


@command.command("start", cls=SluiceCommand)
@click.option(
    "--spec", metavar="FILE", help="Spec file with the settings.  [default: the nearest pipeline.yml, if any]"
)
@click.option(
    "--idle-minutes", default=30.0, show_default=True, help="End the session after so long without a command."
)
@master_option
@verbose_option
@click.pass_context
def start(context: click.Context, /, *, spec: str | None, idle_minutes: float, master: str | None) -> None:
    """Start a session for this folder, in the background.

    Commands with the same settings and environment use it; all others start Spark themselves, and say why.
    It ends when idle, at `stop`, or at the end of the login.
    """
    from framework.operations.sessions import keep_spark
    from framework.session.keeper_client.login import Login
    from framework.views.session import session_sentence

    kept = keep_spark(
        Path(spec) if spec else None,
        folder=Path.cwd(),
        master=master,
        idle_seconds=idle_minutes * 60,
        login=Login.of(os.getppid()),
        clock=SystemClock(),
    )
    Output(stream=context.meta[RESULTS]).text(session_sentence(kept))


@command.command("status", cls=SluiceCommand)
@output_option
@verbose_option
@click.pass_context
def status(context: click.Context, /, *, output: str) -> None:
    """Print whether a session is ready for this folder, and which command uses it."""
    from framework.session.keeper_client.client import session_status
    from framework.views.session import session_json, session_sentence

    found, result = session_status(), Output(stream=context.meta[RESULTS])
    if output == "json":
        result.json(session_json(found))
    else:
        result.text(session_sentence(found))


@command.command("stop", cls=SluiceCommand)
@verbose_option
@click.pass_context
def stop(context: click.Context, /) -> None:
    """End the session of this folder."""
    from framework.session.keeper_client.client import stop_server
    from framework.views.session import session_sentence

    stopped = stop_server(SystemClock())
    output = Output(stream=context.meta[RESULTS])
    output.text(session_sentence(None) if stopped is None else f"Process {stopped['pid']} has ended.")
