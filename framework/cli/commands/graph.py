"""`sluice graph`: the diagram of the dataflow."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("graph", cls=SluiceCommand)
@click.option(
    "--format",
    "picture_format",
    type=click.Choice(["svg", "mermaid", "dot", "html"]),
    default="svg",
    show_default=True,
    help="An image, text for Markdown or Graphviz, or an HTML page with a table of all datasets.",
)
@click.option("--stored", is_flag=True, help="Draw the graph of the last validate or update, without Spark.")
@pipeline_options(parameters=True)
def command(call: Call, picture_format: str, *, stored: bool) -> None:
    """Draw the dataflow graph.

    Writes the diagram to standard output: sluice graph > graph.svg
    """
    from framework.diagrams.dot import dot
    from framework.diagrams.mermaid import mermaid
    from framework.diagrams.page import graph_page
    from framework.diagrams.picture import picture_of
    from framework.diagrams.svg import svg
    from framework.views.stored_graph import stored_graph

    pipeline = call.pipeline()
    graph = stored_graph(pipeline.storage, pipeline.name) if stored else pipeline.graph
    if picture_format == "html":
        text = graph_page(graph)
    else:
        draw = {"svg": svg, "mermaid": mermaid, "dot": dot}[picture_format]
        text = draw(picture_of(graph))
    call.output.text(text.rstrip("\n"))
