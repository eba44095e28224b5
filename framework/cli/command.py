"""How every command runs: its result apart from all else, and each error as one paragraph."""

from __future__ import annotations

import errno
import sys
import traceback
from contextlib import redirect_stdout
from typing import NoReturn

import click

from framework.cli.interruption import noted_exit_code
from framework.cli.output import colours_wanted
from framework.foundation.errors import InternalError, OperationError, SluiceError, UserError
from framework.foundation.wording import exception_text

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
                result = super().invoke(ctx)
            return _unless_interrupted(ctx, result)
        except click.exceptions.Exit as end:
            raise click.exceptions.Exit(noted_exit_code(ctx) or end.exit_code) from None
        except SluiceError as error:
            _report(ctx, error)
        except (click.ClickException, click.Abort):
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            _report(ctx, _unexpected(error))
        except Exception as error:  # noqa: BLE001 - the outermost loop: what nobody foresaw becomes a plea to report it
            _report(ctx, _unexpected(error))


def _unexpected(error: Exception) -> SluiceError:
    """An exception that no room turned into an error of ours, as one."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in _SPARK:
        return UserError("SPARK_NOT_INSTALLED", package=package)
    found = _outside(error) or InternalError("INTERNAL_ERROR", error=exception_text(error))
    found.__cause__ = error
    return found


def _outside(error: Exception) -> SluiceError | None:
    """An error of Spark or of the operating system, which is no fault of ours; None for all others."""
    if type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}:
        from framework.graph.calls import first_words

        return OperationError("SPARK_FAILED", cause=first_words(error))
    return OperationError("SYSTEM_CALL_FAILED", cause=error) if isinstance(error, OSError) else None


def _unless_interrupted(ctx: click.Context, result: object) -> object:
    """The command's result, unless a signal asked it to stop: then its exit code says so."""
    code = noted_exit_code(ctx)
    if code is not None:
        raise click.exceptions.Exit(code)
    return result


def _report(ctx: click.Context, error: SluiceError) -> NoReturn:
    if ctx.meta.get(VERBOSE):
        click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(styled(error.render()), err=True, color=colours_wanted(sys.stderr))
    raise click.exceptions.Exit(noted_exit_code(ctx) or error.exit_code)


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
