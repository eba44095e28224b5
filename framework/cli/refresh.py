"""Options for the refresh of a pipeline: its datasets and the kind of update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from framework.foundation.errors import UserError
from framework.plan.request import RequestOptions


def refresh_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the refresh options to a command; `refresh_of` reads them."""
    options = (
        click.option("--refresh", multiple=True, metavar="A,B", help="Update these datasets only."),
        click.option("--full-refresh", multiple=True, metavar="A,B", help="Clear these datasets and build them anew."),
        click.option("--full-refresh-all", is_flag=True, help="Build all datasets anew that allow it."),
        click.option(
            "--reset-checkpoint",
            multiple=True,
            metavar="FLOW",
            help="Begin this flow again; its target keeps its rows. Repeatable.",
        ),
        click.option("--continuous", is_flag=True, help="Keep every flow running until Ctrl-C."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def refresh_of(options: dict[str, Any]) -> RequestOptions:
    """Return the request in the options; a list may have commas, or the option may be repeated.

    Raises:
        UserError: REFRESH_NAMES_MISSING if a name in a list is empty, because an empty selection would mean all.
    """
    request = RequestOptions(
        refresh=_names("--refresh", options["refresh"]),
        full_refresh=_names("--full-refresh", options["full_refresh"]),
        full_refresh_all=options["full_refresh_all"],
        reset_checkpoints=_names("--reset-checkpoint", options["reset_checkpoint"]),
    )
    if options["continuous"]:  # without the option, the spec decides
        request["continuous"] = True
    return request


def _names(option: str, lists: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip() for text in lists for name in text.split(","))
    if not all(names):
        raise UserError("REFRESH_NAMES_MISSING", option=option)
    return names
