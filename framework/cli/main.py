"""Entry point of `sluice`: its commands, and the setup and exit of the process."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from framework import __version__
from framework.cli.signals import exit_code, unwinding_when_ended
from framework.cli.verbosity import verbose_option
from framework.foundation.nearest import nearest_name

_PROJECTS = {
    "demo": "Run two pipelines without preparation: real flights, and a database at work.",
    "init": "Create a new pipeline project that runs.",
    "adopt": "Prepare a pipeline that was written for Databricks to run on this machine.",
}
_COMMANDS = {
    "validate": "Check definitions, graph and schemas; change no data.",
    "plan": "Print the steps of an update and their reasons; write nothing.",
    "run": "Update the datasets of the pipeline.",
    "stop": "Stop the update that runs, on any machine.",
    "test": "Run the tests of the project, and print what they cover.",
    "graph": "Draw the dataflow graph.",
    "events": "Print the event log.",
    "show": "Print rows of a dataset.",
    "sql": "Print the result of a query.",
    "checkpoints": "List, reset and roll back the checkpoints of flows.",
    "backups": "List and drop copies of tables from before a full refresh.",
    "rewind": "Take tables and their flows back to an earlier time.",
    "reconcile": "Compare two tables row by row.",
    "doctor": "Explain flows that are broken, stuck or behind, and repair them.",
    "quarantine": "List, show, replay and drop rows that flows could not write.",
    "lag": "Print how far each flow is behind, and whether it is stuck.",
    "ingest": "Check, observe and operate the copies of databases.",
    "session": "Keep Spark ready for the commands of this folder.",
    "prune": "Drop tables that the code no longer declares.",
    "bundle": "Plan and deploy a bundle without interrupting a running snapshot.",
}

_SERVING = {
    "report": "Write one HTML file about the pipeline, to be sent by mail.",
    "serve": "Serve a page and an API for the pipelines below DIR, until Ctrl-C.",
    "open": "Print the address of a server that runs, with a code that signs a browser in.",
    "token": "Create, list and revoke the tokens by which programs use the server.",
    "schedule": "List, explain, pause and resume the schedules of the pipeline.",
}

_WITHOUT_COLLECTIONS = frozenset({"validate", "plan", "graph", "show", "sql", "run"})
"""Commands that usually end before garbage collection pays off, which takes an eighth of their CPU time in Python.

An update of `run` may take days, so it enables garbage collection when it begins.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """The module of a command (with the attribute `command`), and a summary of half a line."""

    module: str
    summary: str


class LazyGroup(click.Group):
    """A command group with names and summaries of its commands, which imports a command only to run it.

    Args:
        commands_by_name: the commands, in the order of `--help`.
    """

    def __init__(self, *, commands_by_name: Mapping[str, LazyCommand], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.commands_by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        del ctx
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is no such command."""
        del ctx
        entry = self.commands_by_name.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = import_module(entry.module).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command in the first argument.

        Raises:
            click.UsageError: there is no such command; the error suggests the nearest one.
        """
        if args and args[0] not in self.commands_by_name and not ctx.resilient_parsing and args[0][:1] != "-":
            nearest = nearest_name(args[0], self.commands_by_name)
            hint = f" Did you mean {nearest}?" if nearest else ""
            ctx.fail(f"Command {args[0]} does not exist.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their summaries, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.commands_by_name.items()])


class SluiceGroup(LazyGroup):
    """The outermost group: an interrupt at any time ends the process with the signal's exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's signature
        **extra: Any,
    ) -> Any:
        """Run the command in the arguments; see click.

        Raises:
            SystemExit: with the exit code of the command, if standalone.
        """
        try:
            with unwinding_when_ended():
                ended = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort as abort:
            click.echo("Aborted.", err=True)
            code = exit_code(abort.__cause__ or abort.__context__)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except KeyboardInterrupt as interrupt:
            code = exit_code(interrupt)
        except OSError as error:  # raised by the output of `--help` or `--version`; commands report their own errors
            code = 1 if error.errno == errno.EPIPE else _report_failed_call(error)
            _write_to_nowhere()  # otherwise Python would try again at exit
        else:
            code = ended if isinstance(ended, int) else 0
        try:
            sys.stdout.flush()
        except OSError:  # raised by a closed terminal; Python would replace the exit code
            _write_to_nowhere()
        if standalone_mode:
            sys.exit(code)
        return code


def _report_failed_call(error: OSError) -> int:
    """Print an operating system error as commands do, and return its exit code."""
    from framework.cli.command import styled
    from framework.cli.output import say
    from framework.foundation.errors import OperationError

    found = OperationError("SYSTEM_CALL_FAILED", cause=error)
    say(styled(found.render()))
    return found.exit_code


def _write_to_nowhere() -> None:
    """Redirect standard output and error to the null device, so that a closed output causes no error at exit."""
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends


def _open_closed_streams() -> None:
    """Redirect a standard stream that the caller has closed (`>&-`) to the null device.

    Otherwise the next file that the process opens would get its descriptor, and output would be written to that file.
    """
    for number, mode in ((0, "r"), (1, "w"), (2, "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)
            setattr(sys, ("stdin", "stdout", "stderr")[number], stream)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
    """Print the versions of Sluice, Spark and Delta Lake, and the Java version of local sessions."""
    del parameter
    if not value or context.resilient_parsing:
        return
    from framework.foundation.errors import UserError
    from framework.session.java import find_java

    try:
        java = str(find_java())
    except UserError as error:
        java = error.what
    click.echo(f"sluice {__version__}\nSpark {_installed('pyspark')}, Delta Lake {_installed('delta-spark')}\n{java}")
    context.exit()


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


cli = SluiceGroup(
    name="sluice",
    help="Declarative pipelines on Spark and Delta Lake that run anywhere Spark runs.",
    commands_by_name={
        name: LazyCommand(module=f"framework.cli.{folder}.{name}", summary=summary)
        for folder, commands in (("projects", _PROJECTS), ("commands", _COMMANDS), ("serving", _SERVING))
        for name, summary in commands.items()
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
cli = verbose_option(cli)
cli = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)(cli)


def main() -> None:
    """Run the command given by the process's arguments, and end the process with its exit code.

    Only results are written to standard output. Its file descriptor is redirected to standard error before anything
    starts that could write to it, such as Spark's JVM; Python keeps a copy of the descriptor for results.
    """
    _open_closed_streams()
    results = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    sys.stdout = results
    name = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    if name in _WITHOUT_COLLECTIONS:
        gc.disable()
    cli(prog_name="sluice")
