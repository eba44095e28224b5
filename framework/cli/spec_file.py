"""Which spec file a command means."""

from __future__ import annotations

from pathlib import Path

from framework.foundation.errors import UserError

SPEC_NAMES = ("pipeline.yml", "spark-pipeline.yml")


def find_spec(given: str | None, folder: Path) -> Path:
    """The file given, or the nearest spec of `folder` and the folders above it.

    Raises:
        UserError: PIPELINE_SPEC_NOT_FOUND when nothing was given and there is none; a given file that is
            missing is for who reads it to tell.
    """
    if given is not None:
        return folder / given
    for place in (folder, *folder.parents):
        for name in SPEC_NAMES:
            if (place / name).is_file():
                return place / name
    raise UserError("PIPELINE_SPEC_NOT_FOUND", folder=folder)
