"""The option -v of all commands and groups; it has the same meaning before and after a command's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_VERBOSE = "sluice.verbose"

_Given = TypeVar("_Given", bound=Callable[..., Any])


def verbose_option(command: _Given) -> _Given:
    """Add -v to a command or a group; `is_verbose` reads it."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_keep,
        help="Print Spark's log, and tracebacks of errors.",
    )(command)


def is_verbose(context: click.Context) -> bool:
    """Return whether -v was given to the command of a context, or to a group that contains it."""
    return bool(context.meta.get(_VERBOSE, False))


def _keep(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
    """Store -v in the context's `meta`, which a group shares with its commands."""
    del parameter
    context.meta[_VERBOSE] = value or is_verbose(context)
