"""The main job from nothing to a result, as `sluice demo` runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from framework.demo.feeder import Feed
from framework.demo.project import SPEC_FILE, prepare_folder
from framework.diagrams.page import graph_page
from framework.diagrams.picture import picture_of
from framework.diagrams.svg import svg
from framework.pipeline import Pipeline
from framework.record.events import Event
from framework.run.update.results import UpdateResult

DEFAULT_FOLDER = Path(".sluice-demo")
DEFAULT_MONTHS = 2
RESULT = "delay_by_origin_and_weather"

_RESULT_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What the demo made and where it lies.

    Args:
        feed: what the data holds, in rows.
        update: how the update went; its flows carry the counts of the expectations.
        result_name: the dataset of `result_columns` and `result_rows`, worst delays first.
        spec, graph_svg, graph_html, tables, events: files and folders, to look at.
    """

    feed: Feed
    update: UpdateResult
    result_name: str
    result_columns: tuple[str, ...]
    result_rows: tuple[tuple[object, ...], ...]
    spec: Path
    graph_svg: Path
    graph_html: Path
    tables: Path
    events: Path


def run_demo(
    *,
    folder: Path,
    months: int | None,
    master: str | None,
    progress: Callable[[Event], None],
    opened: Callable[[Pipeline], None] = lambda _: None,
    verbose: bool = False,
) -> DemoResult:
    """Prepare the folder, feed it, run its pipeline and look at a result.

    Args:
        folder: the demo's own folder; made when it is not there, used as it is when it is.
        months: of 2013, from January; None for the whole year.
        master: of Spark; None for this machine.
        progress: gets each event of the update as it happens.
        opened: gets the pipeline before its update, so that it can be stopped.
        verbose: let Spark say what it has to say.

    Raises:
        UserError: DEMO_FOLDER_TAKEN, DEMO_DATA_MISSING, DEMO_MONTHS_INVALID.
        SluiceError: what a pipeline's update raises.
    """
    feed = prepare_folder(folder, months)
    spec = folder / SPEC_FILE
    pipeline = Pipeline.from_spec(spec, master=master, verbose=verbose)
    opened(pipeline)
    update = pipeline.run(observers=(progress,))
    graph = pipeline.graph
    graph_svg, graph_html = folder / "graph.svg", folder / "graph.html"
    graph_svg.write_text(svg(picture_of(graph)), encoding="utf-8")
    graph_html.write_text(graph_page(graph), encoding="utf-8")
    top = pipeline.table(RESULT).orderBy("mean_delay_minutes", ascending=False).limit(_RESULT_ROWS)
    storage = folder / ".sluice" / "flights"
    return DemoResult(
        feed=feed,
        update=update,
        result_name=RESULT,
        result_columns=tuple(top.columns),
        result_rows=tuple(tuple(row) for row in top.collect()),
        spec=spec,
        graph_svg=graph_svg,
        graph_html=graph_html,
        tables=storage / "tables",
        events=storage / "events",
    )
