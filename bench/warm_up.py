"""The caches that exist after a first command: resolved jars and a class archive."""

from __future__ import annotations

import time
from pathlib import Path

import pyspark

from bench.many import write_project
from bench.measure import run_process, scratch_folder, sluice
from framework.session.jars import cache_folder, delta_jars
from framework.session.java import find_java

_TIMEOUT_SECONDS = 300


def fill_caches() -> None:
    """Run one command and wait for the caches that it builds in the background."""
    with scratch_folder() as folder:
        write_project(folder, tables=1, views=1)
        classes = cache_folder() / "classes"
        others = {*classes.glob("*.building")}  # of other commands, or of one that was killed
        run_process(sluice("validate"), folder=folder, timeout_seconds=_TIMEOUT_SECONDS)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while {*classes.glob("*.building")} - others and time.monotonic() < deadline:
            time.sleep(0.5)


def cached_jars() -> tuple[str, ...]:
    """The paths of Delta's jars."""
    return delta_jars(find_java(), str(Path(pyspark.__file__).parent), {})
