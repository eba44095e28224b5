"""`sluice demo`: a pipeline on real data."""

from __future__ import annotations

from pathlib import Path

import click

from framework.cli.call import Surroundings, master_option, output_option
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.output import Output
from framework.cli.verbosity import is_verbose, verbose_option


@click.command("demo", cls=SluiceCommand)
@click.option("--all", "whole_year", is_flag=True, help="Use the whole year instead of two months.")
@click.option("--months", type=click.IntRange(1, 12), metavar="N", help="Number of months, from January.  [default: 2]")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of the demo.  [default: .sluice-demo]")
@click.option("--no-database", is_flag=True, help="Leave out the example with a database.")
@master_option
@verbose_option
@output_option
@click.pass_context
def command(
    context: click.Context,
    *,
    whole_year: bool,
    months: int | None,
    folder: Path | None,
    no_database: bool,
    master: str | None,
    output: str,
) -> None:
    """Run two pipelines without preparation: real flights, and a database at work.

    Writes files about the flights that left New York in 2013, as an airport would send them, updates
    the pipeline, and prints one of its results. A second run has nothing to do.

    Then starts a PostgreSQL of its own with a bank's accounts, copies them while customers pay and
    draw, kills the update in the middle, continues it, and compares every balance with its source.
    """
    from framework.cli.demonstration import Demonstration

    if whole_year and months is not None:
        context.fail("--all and --months exclude each other.")
    demonstration = Demonstration(
        output=Output(stream=context.meta[RESULTS], as_json=output == "json"),
        clock=(context.find_object(Surroundings) or Surroundings()).clock,
        folder=folder,
        months=None if whole_year else months or 2,
        master=master,
        verbose=is_verbose(context),
        with_database=not no_database,
    )
    demonstration.run()
