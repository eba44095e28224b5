"""A pipeline brought up to date in a folder of a test's own."""

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
    """The pipeline of a spec after one update into `storage`; its session ends with the block.

    Args:
        spec: the pipeline's spec file.
        storage: a folder of the test's own, such as pytest's `tmp_path`.
        parameters: entries of the configuration, over those of the spec.
        master: of the session that is started when none is given.
        spark: a session to use, which stays.

    Raises:
        SluiceError: what made the first failed flow fail, or what kept the update from beginning.
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
