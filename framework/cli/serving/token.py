"""`sluice token`: the tokens by which programs use a server."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from framework.cli.call import Surroundings, output_option
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output, say
from framework.cli.serving.serve import state_folder
from framework.cli.verbosity import verbose_option

if TYPE_CHECKING:
    from framework.server.access.tokens import TokenStore

_DAYS = re.compile(r"(\d{1,4})d")


@click.group("token")
@verbose_option
def command() -> None:
    """Create, list and revoke the tokens by which programs use the server."""


@command.command("create", cls=SluiceCommand)
@click.argument("name")
@click.option("--role", required=True, type=click.Choice(["view", "read", "operate", "manage"]),
              help="view: states and events. read: also rows. operate: also run and repair. manage: everything.",
)  # fmt: skip
@click.option("--pipelines", metavar="A,B", help="Only these pipelines.  [default: all]")
@click.option("--expires", metavar="DAYSd", help="When it ends, such as 90d.  [default: never]")
@verbose_option
@click.pass_context
def create(context: click.Context, name: str, *, role: str, pipelines: str | None, expires: str | None) -> None:
    """Create a token with NAME, and print it: it is not stored, and can't be printed again."""
    from framework.server.access.roles import Role

    named = None if pipelines is None else [each.strip() for each in pipelines.split(",")]
    _, text = _tokens(context).create(name, Role(role), pipelines=named, expires_after=_duration(expires))
    Output(stream=context.meta[RESULTS]).line(text)


@command.command("list", cls=SluiceCommand)
@output_option
@verbose_option
@click.pass_context
def list_tokens(context: click.Context, *, output: str) -> None:
    """List all tokens, without their texts."""
    columns = ("id", "name", "role", "pipelines", "created_at", "expires_at", "last_used_at")
    rows = [
        {**each.to_json(), "role": str(each.role), "pipelines": ", ".join(each.pipelines)}
        for each in _tokens(context).list_all()
    ]
    Output(stream=context.meta[RESULTS], as_json=output == "json").table(columns, rows)


@command.command("revoke", cls=SluiceCommand)
@click.argument("name")
@verbose_option
@click.pass_context
def revoke(context: click.Context, name: str) -> None:
    """Revoke the token with this NAME or id; its next request is refused."""
    found = _tokens(context).revoke(name)
    say(f"The token {found.name} is revoked.")


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = _DAYS.fullmatch(text)
    if found is None or int(found[1]) == 0:
        msg = "--expires takes a number of days, such as 90d."
        raise click.UsageError(msg)
    return timedelta(days=int(found[1]))


def _tokens(context: click.Context) -> TokenStore:
    from framework.server.access.tokens import TokenStore

    return TokenStore(state_folder(), (context.find_object(Surroundings) or Surroundings()).clock)
