"""A group of commands that are imported when they are called."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """Where a command is (`module`, its attribute `command`) and what it does, in half a line."""

    module: str
    summary: str


class LazyGroup(click.Group):
    """A group that knows its commands by name and summary, and imports one to run it.

    Args:
        commands_by_name: the commands in the order in which `--help` lists them.
    """

    def __init__(self, *, commands_by_name: Mapping[str, LazyCommand], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.commands_by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in their order."""
        del ctx
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None when there is none of that name."""
        del ctx
        entry = self.commands_by_name.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = import_module(entry.module).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with.

        Raises:
            click.UsageError: there is none; it names the nearest one.
        """
        if args and args[0] not in self.commands_by_name and not ctx.resilient_parsing and args[0][:1] != "-":
            nearest = difflib.get_close_matches(args[0], self.commands_by_name, n=1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            ctx.fail(f"There is no command {args[0]}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by their summaries, importing none."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.commands_by_name.items()])
