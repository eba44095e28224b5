"""The secrets of a pipeline with a spec, and its settings with the values of these secrets."""

from __future__ import annotations

from framework.declare.pipeline_spec import PipelineSpec
from framework.declare.specs import Pairs
from framework.declare.workspace.secrets import Secrets


def secrets_of(spec: PipelineSpec) -> Secrets:
    """Return the secrets that the pipeline's code may read."""
    return Secrets(sources=spec.workspace.secrets, folder=spec.root)


def settings_of(spec: PipelineSpec) -> tuple[Pairs, Pairs]:
    """Return `spark_conf` and `configuration` of a spec, with secret references replaced by their values.

    The spec itself keeps the references: only sessions, and the code that runs in them, have the values.

    Raises:
        GraphErrors: SECRET_MISSING for each secret without a value, SECRETS_EXPOSED.
    """
    found = secrets_of(spec).in_settings((*spec.spark_conf, *spec.configuration), spec.file)
    return found[: len(spec.spark_conf)], found[len(spec.spark_conf) :]
