"""`sluice init`: a new pipeline project."""

from __future__ import annotations

from pathlib import Path

import click

from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output
from framework.cli.verbosity import verbose_option


@click.command("init", cls=SluiceCommand)
@click.argument("name")
@click.option(
    "--language",
    type=click.Choice(["python", "sql"]),
    default="python",
    show_default=True,
    help="The language of its declarations.",
)
@verbose_option
@click.pass_context
def command(context: click.Context, name: str, language: str) -> None:
    """Create a new pipeline project that runs.

    Writes the folder NAME with a spec, declarations, sample data, tests, CI files and a bundle. NAME must not exist.
    """
    from framework.operations.new_project import create_project

    folder, paths = create_project(name, Path.cwd(), language=language)
    output = Output(stream=context.meta[RESULTS])
    output.text("\n".join(f"{folder.name}/{path.as_posix()}" for path in paths))
    output.text(f"\nNext:\n  cd {folder.name}\n  sluice run\n  sluice show revenue_by_city")
