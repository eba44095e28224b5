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
    from framework.declare.pipeline_spec import find_spec, load_spec
    from framework.declare.spec_secrets import settings_of
    from framework.foundation.errors import UserError
    from framework.run.pipeline_session import named_formats
    from framework.session.keeper_client.client import session_status, start_server
    from framework.session.keeper_client.login import Login
    from framework.session.spark_session import DEFAULT_MASTER
    from framework.views.session import session_sentence

    output = Output(stream=context.meta[RESULTS])
    running = session_status()
    if running is not None:
        output.text(session_sentence(running))
        return
    try:
        found = load_spec(Path(spec) if spec else find_spec(Path.cwd()))
        spark_conf, formats = dict(settings_of(found)[0]), named_formats(found)
    except UserError as error:
        if spec or error.condition != "PIPELINE_SPEC_FILE_NOT_FOUND":
            raise
        spark_conf, formats = {}, ()
    started = start_server(
        master=master or DEFAULT_MASTER,
        spark_conf=spark_conf,
        formats=formats,
        idle_seconds=idle_minutes * 60,
        login=Login.of(os.getppid()),
        clock=SystemClock(),
    )
    output.text(session_sentence(started))


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
