"""Every command and group of `sluice`, by its words."""

from __future__ import annotations

import click

from framework.cli.main import cli


def every_command() -> list[tuple[tuple[str, ...], click.Command]]:
    """The words of each command and the command, groups and the commands within them too."""
    found: list[tuple[tuple[str, ...], click.Command]] = [((), cli)]
    for name in cli.commands_by_name:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        found.append(((name,), command))
        if isinstance(command, click.Group):
            found += [((name, inner), each) for inner, each in command.commands.items()]
    return found
