"""A pipeline after one update, in a folder of the test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from framework.pipeline import Pipeline
from framework.run.update.results import UpdateState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def updated_pipeline(
    spec: str | Path,
    *,
    storage: str | Path,
    parameters: Mapping[str, str] | None = None,
    master: str = "local[2]",
    spark: SparkSession | None = None,
) -> Iterator[Pipeline]:
    """Run one update of a pipeline into `storage` and yield the pipeline; the block ends its session.

    Args:
        spec: the pipeline's spec file.
        storage: a folder of the test, such as pytest's `tmp_path`.
        parameters: entries of the configuration, which override the spec.
        master: Spark master of a new session.
        spark: an existing session to use instead, which is not stopped.

    Raises:
        SluiceError: the error of the first failed flow, or an error before the update started.
        AssertionError: the update did not complete for another reason.
    """
    pipeline = Pipeline.from_spec(spec, storage=storage, parameters=parameters, master=master, spark=spark)
    try:
        result = pipeline.run()
        for flow in result.flows:
            if flow.error is not None:
                raise flow.error
        assert result.state is UpdateState.COMPLETED, f"the update ended as {result.state.value}"
        yield pipeline
    finally:
        pipeline.close()
