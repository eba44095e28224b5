"""The Spark session of a run of tests, and the pipeline of each test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework.declare.pipeline_spec import SPEC_NAMES, find_spec
from framework.foundation.errors import UserError
from framework.foundation.yaml_documents import read_yaml
from framework.testing.yaml_format import YAML

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.pipeline_spec import PipelineSpec
    from framework.pipeline import Pipeline

MARKER = "sluice_spec"


class RunSession:
    """The Spark session of the tests of one process; it starts at its first use.

    Args:
        master: Spark's master; None for two cores of this machine.

    Attributes:
        started: the session; None before its first use.
    """

    def __init__(self, master: str | None) -> None:
        self._master = master
        self.started: SparkSession | None = None

    def of(self, spec: PipelineSpec) -> SparkSession:
        """Return the session; packages of formats that the first pipeline names are loaded at its start."""
        from framework.run.pipeline_session import named_formats
        from framework.sandbox.test_session import JVM, MASTER
        from framework.session.spark_session import start_session

        if self.started is None:
            self.started = start_session(
                app_name="sluice tests",
                master=self._master or MASTER,
                spark_conf={**JVM, **dict(spec.spark_conf)},
                formats=named_formats(spec),
            )
        return self.started

    def end(self) -> None:
        """Stop the session if this process started it; a session that was active before stays."""
        if self.started is not None:
            from framework.session.spark_session import stop_session

            stop_session(self.started)
            self.started = None


def users_session(request: pytest.FixtureRequest) -> SparkSession | None:
    """Return the project's fixture `spark`; None if it has none."""
    try:
        return request.getfixturevalue("spark")  # type: ignore[no-any-return]
    except pytest.FixtureLookupError:
        return None


def pipeline_of(item: pytest.Item, run_session: RunSession, users_session: SparkSession | None) -> Pipeline:
    """Return the pipeline of a test: of its marker, of the ini setting, or of the nearest spec above the test's file.

    Raises:
        UserError: the spec is not found, or is not valid.
    """
    from framework.declare.pipeline_spec import load_spec
    from framework.pipeline import Pipeline

    marker = item.get_closest_marker(MARKER)
    named = dict(marker.kwargs) if marker else {}
    path = spec_path(item, marker.args[0] if marker and marker.args else named.pop("path", None))
    spark = users_session or run_session.started or run_session.of(load_spec(path))
    return Pipeline.from_spec(path, spark=spark, **named)


def spec_path(item: pytest.Item, named: str | Path | None) -> Path:
    """Return the spec of a test; a named one is relative to the test's file, that of the ini setting to the root.

    Raises:
        UserError: PIPELINE_SPEC_FILE_NOT_FOUND.
    """
    if named is not None:
        return item.path.parent / named
    setting: str = item.config.getini(MARKER)
    if setting:
        return item.config.rootpath / setting
    try:
        return find_spec(item.path.parent)
    except UserError:
        return find_spec(item.config.rootpath)


def may_have_spec(file: Path, config: pytest.Config) -> bool:
    """Return whether a test file in YAML belongs to a pipeline: it names a spec, the ini does, or one is above it."""
    if config.getini(MARKER) or any((folder / name).is_file() for folder in file.parents for name in SPEC_NAMES):
        return True
    try:
        return read_yaml(file, YAML).get("pipeline") is not None
    except UserError:
        return False
