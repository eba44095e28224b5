"""Command group that imports a command when it is called."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """Module of a command (its attribute `command`) and a summary of half a line."""

    module: str
    summary: str


class LazyGroup(click.Group):
    """Command group with names and summaries of its commands, which imports a command to run it.

    Args:
        commands_by_name: the commands in the order of `--help`.
    """

    def __init__(self, *, commands_by_name: Mapping[str, LazyCommand], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.commands_by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        del ctx
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is no such command."""
        del ctx
        entry = self.commands_by_name.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = import_module(entry.module).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command in the first argument.

        Raises:
            click.UsageError: there is no such command; the error names the nearest one.
        """
        if args and args[0] not in self.commands_by_name and not ctx.resilient_parsing and args[0][:1] != "-":
            nearest = difflib.get_close_matches(args[0], self.commands_by_name, n=1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            ctx.fail(f"There is no command {args[0]}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their summaries, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.commands_by_name.items()])
