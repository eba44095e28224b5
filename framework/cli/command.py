"""How every command runs: its result apart from all else, and each error as one paragraph."""

from __future__ import annotations

import errno
import sys
import traceback
from contextlib import redirect_stdout
from typing import NoReturn

import click

from framework.cli.output import colours_wanted
from framework.foundation.errors import InternalError, SluiceError, UserError

RESULTS = "sluice.results"
VERBOSE = "sluice.verbose"

# What a wheel for Databricks does not bring.
_SPARK = frozenset({"pyspark", "delta", "py4j", "pandas", "pyarrow"})


class SluiceCommand(click.Command):
    """A command whose body finds standard output under `RESULTS` in the context's `meta`.

    Whatever else prints (a module of the user's, a library) goes to standard error meanwhile.
    """

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, and end the process with 1 or 2 when it fails.

        Raises:
            click.exceptions.Exit: with the exit code of the error that was reported.
        """
        ctx.meta[RESULTS] = sys.stdout
        try:
            with redirect_stdout(sys.stderr):
                return super().invoke(ctx)
        except SluiceError as error:
            _report(error, verbose=bool(ctx.meta.get(VERBOSE)))
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            _report(_unexpected(error), verbose=bool(ctx.meta.get(VERBOSE)))
        except Exception as error:  # noqa: BLE001 - the outermost loop: what nobody foresaw becomes a plea to report it
            _report(_unexpected(error), verbose=bool(ctx.meta.get(VERBOSE)))


def _unexpected(error: Exception) -> SluiceError:
    """An exception that no room turned into an error of ours, as one."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in _SPARK:
        return UserError("SPARK_NOT_INSTALLED", package=package)
    first_line = (str(error).strip().splitlines() or ["no message"])[0]
    internal = InternalError("INTERNAL_ERROR", kind=type(error).__name__, message=first_line)
    internal.__cause__ = error
    return internal


def _report(error: SluiceError, *, verbose: bool) -> NoReturn:
    if verbose:
        click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(styled(error.render()), err=True, color=colours_wanted(sys.stderr))
    raise click.exceptions.Exit(error.exit_code)


def styled(paragraph: str, *, colour: str = "red") -> str:
    """An error's text with its condition in a colour and its remedy in bold."""
    lines = []
    for line in paragraph.splitlines():
        condition, bracket, rest = line.partition("] ")
        if line.startswith("[") and bracket:
            lines.append(click.style(condition + "]", fg=colour, bold=True) + f" {rest}")
        else:
            lines.append(click.style(line, bold=True) if line.startswith("  -> ") else line)
    return "\n".join(lines)
