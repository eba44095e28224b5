"""The demo's folder: a project of its own, with the pipeline, its data and its storage.

::

    .sluice-demo/
        pipeline.yml, transformations/    the pipeline, to read, to change, to run again
        data/                             the feed; `feed.json` in it says what it holds
        .sluice/flights/                  tables, checkpoints, events
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from framework.demo.feeder import FEED_FILE, FEED_FORMAT, Feed, write_feed
from framework.demo.source_data import check_months
from framework.foundation.errors import UserError

SPEC_FILE = "pipeline.yml"

_PARTIAL_FEED = "data.partial"


def prepare_folder(folder: Path, months: int | None) -> Feed:
    """Make the folder a demo of this number of months, and return the counts of its feed.

    A folder that already is one is left as it is, with whatever its user changed. Stopping in between is
    safe: the feed comes first and comes whole, and files of the project that are missing are written.

    Raises:
        UserError: DEMO_FOLDER_TAKEN when it holds something else, or another number of months;
            DEMO_DATA_MISSING, DEMO_MONTHS_INVALID.
    """
    chosen = check_months(months)
    feed = _read_feed(folder)
    if feed is None:
        if folder.exists() and not _is_ours_to_fill(folder):
            raise UserError("DEMO_FOLDER_TAKEN", folder=folder, content="is not empty and does not contain a demo")
        feed = write_feed(folder / "data", chosen)
    elif feed.months != chosen:
        raise UserError("DEMO_FOLDER_TAKEN", folder=folder, content=f"contains a demo with {feed.months} month(s)")
    _write_project(folder)
    return feed


def pipeline_folder() -> Path:
    """The flights pipeline, as the wheel ships it or as the checkout has it."""
    shipped = Path(__file__).parent / "flights"
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "pipelines" / "flights"


def _is_ours_to_fill(folder: Path) -> bool:
    """Whether there is nothing in the folder but what a stopped feeder left."""
    return folder.is_dir() and all(path.name == _PARTIAL_FEED for path in folder.iterdir())


def _read_feed(folder: Path) -> Feed | None:
    """What the folder was fed with, or None."""
    file = folder / "data" / FEED_FILE
    return Feed(**FEED_FORMAT.content(file.read_text(encoding="utf-8"), str(file))) if file.is_file() else None


def _write_project(folder: Path) -> None:
    """The pipeline's files that the folder lacks; its data is named by its whole path, to run from anywhere."""
    source = pipeline_folder()
    for module in sorted(source.glob("transformations/*.py")):
        target = folder / "transformations" / module.name
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            shutil.copyfile(module, target)
    spec = folder / SPEC_FILE
    if not spec.exists():
        text = (source / SPEC_FILE).read_text(encoding="utf-8")
        data = json.dumps(str((folder / "data").resolve()))
        spec.write_text(text.replace("flights.data: data", f"flights.data: {data}"), encoding="utf-8")
