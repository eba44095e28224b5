"""`sluice open`: signs a browser in to a server that runs."""

from __future__ import annotations

import click

from framework.cli.call import Surroundings
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output
from framework.cli.serving.serve import state_folder
from framework.cli.verbosity import verbose_option
from framework.foundation.errors import UserError
from framework.foundation.processes import user_name


@click.command("open", cls=SluiceCommand)
@click.option("--url", metavar="URL", help="Address of the server.  [default: that of the server that runs]")
@verbose_option
@click.pass_context
def command(context: click.Context, *, url: str | None) -> None:
    """Print the address of a server that runs, with a new code that signs a browser in.

    The code is valid once, within ten minutes. Only the user who runs the server can make it.
    """
    from framework.server.access.sessions import Sessions
    from framework.server.access.state import running_servers

    surroundings = context.find_object(Surroundings) or Surroundings()
    address = url or next(iter(running_servers(state_folder())), None)
    if address is None:
        raise UserError("SERVE_NOT_RUNNING", folder=state_folder())
    code = Sessions(state_folder(), surroundings.clock, user_name() or "user").make_code()
    Output(stream=context.meta[RESULTS]).line(f"{address.rstrip('/')}/#c={code}")
