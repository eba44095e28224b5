"""`sluice reconcile`: compare two tables."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("reconcile", cls=SluiceCommand)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--keys", metavar="K,L", default="", help="Columns that identify a row.  [default: those of the dataset]")
@click.option("--columns", metavar="C,D", default="", help="Other columns to compare.  [default: all]")
@click.option("--where", metavar="CONDITION", help="Compare only the rows of both that meet this SQL condition.")
@click.option(
    "--limit", type=click.IntRange(0, 100_000), default=20, show_default=True, help="Number of differing keys to print."
)
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, first: str, second: str, keys: str, columns: str, where: str | None, limit: int) -> None:
    """Compare two tables row by row.

    A and B are datasets, tables, folders as delta.`/path`, or tables of a database as
    database:CONNECTION/schema.table. A suffix such as @v12 selects a version. Ends with exit code 1
    if the tables differ.
    """
    from framework.views.comparison import compared_tables, comparison_json, comparison_text, differences_table

    found = call.pipeline().reconcile(
        first, second, keys=_names(keys), columns=_names(columns), where=where, limit=limit
    )
    call.output.result(compared_tables(found), comparison_json(found))
    if not call.output.as_json:
        call.output.text(f"\n{comparison_text(found)}")
        if found.differences:
            call.output.text("\n" + call.output.formatted(differences_table(found)))
    if not found.is_equal:
        raise click.exceptions.Exit(1)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
