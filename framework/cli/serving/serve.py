"""`sluice serve`: the page and the API."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from framework import __version__
from framework.cli.call import Surroundings
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output, say
from framework.cli.verbosity import verbose_option
from framework.foundation.processes import user_name

if TYPE_CHECKING:
    from framework.server.server import Server


def state_folder() -> Path:
    """Return the folder of the state of this user's servers: tokens, sessions, addresses."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "sluice" / "server"


@click.command("serve", cls=SluiceCommand)
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
@click.option("--trusted-proxy", "proxies", multiple=True, metavar="CIDR",
              help="Addresses of a proxy that signs users in: X-Forwarded-User, -Groups. Repeatable.")  # fmt: skip
@click.option("--proxy-role", "proxy_roles", multiple=True, metavar="GROUP=ROLE",
              help="The role of a group of the proxy. Repeatable.")  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@verbose_option
@click.pass_context
def command(
    context: click.Context, folders: tuple[Path, ...], *, address: str, port: int | None,
    allowed_hosts: tuple[str, ...], engines: int | None, tls_cert: Path | None, tls_key: Path | None,
    proxies: tuple[str, ...], proxy_roles: tuple[str, ...], opens: bool,
) -> None:  # fmt: skip
    """Serve a page and an API for the pipelines below DIR, until Ctrl-C.

    The page shows each update, whoever started it. Updates run in processes of their own, which go on when the server
    ends. Only this machine reaches the server, unless --address says otherwise.

    Prints the address with a code that signs a browser in, once, within ten minutes; `sluice open` prints another one.
    Programs send a token of `sluice token create`.
    """
    from framework.operations.alerting.explaining import first_way
    from framework.server.server import Settings
    from framework.server.serving import Address, Extras, serve, trusted_proxy
    from framework.server.signals.routes import Signals

    if (tls_cert is None) != (tls_key is None):
        msg = "--tls-cert and --tls-key are given together."
        raise click.UsageError(msg)
    surroundings = context.find_object(Surroundings) or Surroundings()
    output = Output(stream=context.meta[RESULTS])

    def ready(url: str, server: Server) -> None:
        _show_pipelines(server)
        link = f"{url}/#c={server.sessions.make_code()}"
        output.line(link)
        if opens:
            webbrowser.open(link)

    settings = Settings(
        folders=tuple(each.resolve() for each in folders or (Path.cwd(),)), state_folder=state_folder(),
        cache=surroundings.cache(), user=user_name() or "user", most_engines=engines, version=__version__,
    )  # fmt: skip
    proxy = trusted_proxy(proxies, proxy_roles)
    where = Address(
        host=address, port=port, allowed_hosts=allowed_hosts, certificate=tls_cert, key=tls_key, proxy=proxy
    )
    signals = Signals(first_way)
    serve(settings, where, surroundings.clock, ready, Extras(parts=signals.parts, routes=signals.routes))


def _show_pipelines(server: Server) -> None:
    names: Sequence[str] = [each.name for each in server.pipelines()]
    where = ", ".join(str(each) for each in server.settings.folders)
    counted = f"{len(names)} pipeline{'' if len(names) == 1 else 's'}"
    say(f"{counted} below {where}: {', '.join(names)}." if names else f"No pipeline.yml below {where}.")
    for fault in server.faults:
        say(f"{fault.file}: [{fault.condition}] {fault.what}")
