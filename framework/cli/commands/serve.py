"""`sluice serve`: the page and the API, their sign-in and their tokens."""

from __future__ import annotations

import os
import re
import webbrowser
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from framework.cli.call import Surroundings, output_option
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output, say
from framework.cli.verbosity import verbose_option
from framework.foundation.processes import user_name

if TYPE_CHECKING:
    from framework.server.access.sessions import Sessions
    from framework.server.access.tokens import TokenStore
    from framework.server.server import Server

_DAYS = re.compile(r"(\d{1,4})d")
_NAMED = frozenset({"open", "token"})


class ServeGroup(click.Group):
    """`sluice serve [DIR]...` beside `sluice serve token` and `sluice serve open`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a first word other than a command of the group as a folder to serve."""
        return super().parse_args(ctx, args if args and args[0] in _NAMED else ["start", *args])


def state_folder() -> Path:
    """Return the folder of the servers' state: tokens, sessions, schedules."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "sluice" / "server"


@click.group("serve", cls=ServeGroup, invoke_without_command=False)
def command() -> None:
    """Serve a page and an API for the pipelines below folders.

    The page shows each update, whoever started it. Its updates run in processes of their own, which go on when the
    server ends. Only this machine reaches it, unless --address says otherwise. `sluice serve DIR` serves the pipelines
    below DIR; these commands are for a server that runs or will run:
    """


@command.command("start", cls=SluiceCommand)
@click.argument("folders", nargs=-1, metavar="[DIR]...", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--address", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port.  [default: 8642, or the next free one]")
@click.option("--allowed-host", "allowed_hosts", multiple=True, metavar="NAME",
              help="A further name by which browsers reach the server. Repeatable.")  # fmt: skip
@click.option("--engines", type=click.IntRange(min=1), metavar="N",
              help="Updates that may run at the same time.  [default: what fits into the memory]")  # fmt: skip
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Certificate for HTTPS.")  # fmt: skip
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Its private key.")  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@verbose_option
@click.pass_context
def start(
    context: click.Context, folders: tuple[Path, ...], *, address: str, port: int | None,
    allowed_hosts: tuple[str, ...], engines: int | None, tls_cert: Path | None, tls_key: Path | None, opens: bool,
) -> None:  # fmt: skip
    """Serve the pipelines below DIR, or below the working folder, until Ctrl-C.

    Prints the address with a code that signs a browser in, once, within ten minutes. Programs send a token of
    `sluice serve token create`.
    """
    from framework.server.server import Settings
    from framework.server.serving import Address, serve

    surroundings, output = _surroundings(context), _output(context)

    def ready(url: str, server: Server) -> None:
        _show_pipelines(server)
        link = f"{url}/#c={server.sessions.make_code()}"
        output.line(link)
        if opens:
            webbrowser.open(link)

    settings = Settings(
        folders=tuple(each.resolve() for each in folders or (Path.cwd(),)), state_folder=state_folder(),
        cache=surroundings.cache(), user=user_name() or "user", most_engines=engines,
    )  # fmt: skip
    where = Address(
        host=address, port=port, allowed_hosts=allowed_hosts, certificate=tls_cert, key=tls_key
    )  # fmt: skip
    serve(settings, where, surroundings.clock, ready)


@command.command("open", cls=SluiceCommand)
@click.option("--url", default="http://127.0.0.1:8642", show_default=True, metavar="URL", help="Address of the server.")
@click.pass_context
def open_page(context: click.Context, *, url: str) -> None:
    """Print an address with a new code that signs a browser in."""
    _output(context).line(f"{url.rstrip('/')}/#c={_sessions(context).make_code()}")


@command.group("token")
def token() -> None:
    """Create, list and revoke the tokens of programs."""


@token.command("create", cls=SluiceCommand)
@click.argument("name")
@click.option("--role", required=True, type=click.Choice(["view", "read", "operate", "manage"]),
              help="view: states and events; read: also rows; operate: also run and repair; manage: everything.")  # fmt: skip
@click.option("--pipelines", metavar="A,B", help="Only these pipelines.  [default: all]")
@click.option("--expires", metavar="DAYSd", help="When it ends, such as 90d.  [default: never]")
@click.pass_context
def create(context: click.Context, name: str, *, role: str, pipelines: str | None, expires: str | None) -> None:
    """Create a token with NAME, and print it: it is not stored, and can't be printed again."""
    from framework.server.access.roles import Role

    named = [each.strip() for each in pipelines.split(",") if each.strip()] if pipelines else []
    _, text = _tokens(context).create(name, Role(role), pipelines=named, expires_after=_duration(expires))
    stream = context.meta[RESULTS]
    click.echo(text, file=stream)


@token.command("list", cls=SluiceCommand)
@output_option
@click.pass_context
def list_tokens(context: click.Context, *, output: str) -> None:
    """List all tokens, without their texts."""
    columns = ("id", "name", "role", "pipelines", "created_at", "expires_at", "last_used_at")
    rows = [
        {**each.to_json(), "role": str(each.role), "pipelines": ", ".join(each.pipelines)}
        for each in _tokens(context).list_all()
    ]
    Output(stream=context.meta[RESULTS], as_json=output == "json").table(columns, rows)


@token.command("revoke", cls=SluiceCommand)
@click.argument("name")
@click.pass_context
def revoke(context: click.Context, name: str) -> None:
    """Revoke the token with this NAME or id; its next request is refused."""
    found = _tokens(context).revoke(name)
    say(f"The token {found.name} is revoked.")


def _show_pipelines(server: Server) -> None:
    names: Sequence[str] = [each.name for each in server.pipelines()]
    where = ", ".join(str(each) for each in server.settings.folders)
    say(f"{len(names)} pipelines below {where}: {', '.join(names)}." if names else f"No pipeline.yml below {where}.")
    for fault in server.faults:
        say(f"{fault.file}: [{fault.condition}] {fault.what}")


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = _DAYS.fullmatch(text)
    if found is None:
        msg = "--expires takes a number of days, such as 90d."
        raise click.UsageError(msg)
    return timedelta(days=int(found[1]))


def _surroundings(context: click.Context) -> Surroundings:
    return context.find_object(Surroundings) or Surroundings()


def _output(context: click.Context) -> Output:
    return Output(stream=context.meta[RESULTS])


def _tokens(context: click.Context) -> TokenStore:
    from framework.server.access.tokens import TokenStore

    return TokenStore(state_folder(), _surroundings(context).clock)


def _sessions(context: click.Context) -> Sessions:
    from framework.server.access.sessions import Sessions

    return Sessions(state_folder(), _surroundings(context).clock, user_name() or "user")
