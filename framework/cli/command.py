"""The base class of all commands: it separates the result from other output, and prints each error as one paragraph."""

from __future__ import annotations

import errno
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import NoReturn

import click

from framework.cli.output import say
from framework.cli.signals import signal_exit_code
from framework.cli.verbosity import is_verbose
from framework.foundation.errors import InternalError, OperationError, SluiceError, UserError
from framework.foundation.secrets.masked_stream import masked
from framework.foundation.wording import exception_text, printable_lines

RESULTS = "sluice.results"
ORDER = "sluice.order"

# Packages that a wheel for Databricks does not include.
_SPARK = frozenset({"pyspark", "delta", "py4j", "pandas", "pyarrow"})


class SluiceCommand(click.Command):
    """A command whose context has standard output in `meta` under `RESULTS`, and the order of options under `ORDER`.

    All other output, of user modules and libraries, goes to standard error, with known secrets hidden.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and store the names of the options in the given order."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a failure ends the process with exit code 1 or 2, or with the exit code of a signal.

        Raises:
            click.exceptions.Exit: with the exit code of the reported error.
        """
        ctx.meta[RESULTS] = sys.stdout
        try:
            with redirect_stderr(masked(sys.stderr)), redirect_stdout(sys.stderr):
                result = super().invoke(ctx)
            return _unless_interrupted(ctx, result)
        except click.exceptions.Exit as end:
            raise click.exceptions.Exit(signal_exit_code(ctx) or end.exit_code) from None
        except SluiceError as error:
            _report(ctx, error)
        except (click.ClickException, click.Abort):
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            _report(ctx, _unexpected(error))
        except Exception as error:  # noqa: BLE001 - the outermost loop: an unexpected error is reported as an internal one
            _report(ctx, _unexpected(error))


def _unexpected(error: Exception) -> SluiceError:
    """Convert an exception other than SluiceError."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in _SPARK:
        return UserError("SPARK_NOT_INSTALLED", package=package)
    found = _outside(error) or InternalError("INTERNAL_ERROR", error=exception_text(error))
    found.__cause__ = error
    return found


def _outside(error: Exception) -> SluiceError | None:
    """Convert an error of Spark or the operating system, which is not an internal error; None for other errors."""
    if type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}:
        from framework.engine.jvm.java_causes import session_fault
        from framework.engine.jvm.process_ends import end_of_java
        from framework.graph.queries.calls import first_words
        from framework.run.update.fault_classification import is_spark_lost

        if is_spark_lost(error):
            return OperationError("SPARK_LOST", ended=end_of_java(None))
        fault = session_fault(error)
        if fault is not None:
            return OperationError(fault.condition, subject="The command", **fault.fields)
        return OperationError("SPARK_FAILED", cause=first_words(error))
    return OperationError("SYSTEM_CALL_FAILED", cause=error) if isinstance(error, OSError) else None


def _unless_interrupted(ctx: click.Context, result: object) -> object:
    """Return the command's result; raise the exit code of a signal that stopped the command."""
    code = signal_exit_code(ctx)
    if code is not None:
        raise click.exceptions.Exit(code)
    return result


def _report(ctx: click.Context, error: SluiceError) -> NoReturn:
    if is_verbose(ctx):
        say("".join(traceback.format_exception(error)))
    say(styled(error.render()))
    raise click.exceptions.Exit(signal_exit_code(ctx) or error.exit_code)


def styled(paragraph: str, *, colour: str = "red") -> str:
    """Return an error's text with a coloured condition and a bold remedy, and without other terminal sequences."""
    lines = []
    for line in printable_lines(paragraph).splitlines():
        condition, bracket, rest = line.partition("] ")
        if line.startswith("[") and bracket:
            lines.append(click.style(condition + "]", fg=colour, bold=True) + f" {rest}")
        else:
            lines.append(click.style(line, bold=True) if line.startswith("  -> ") else line)
    return "\n".join(lines)
