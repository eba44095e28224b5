"""Checks before an update: whether the pipeline is valid, what an update would do, and which errors it would report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from framework.foundation.errors import GraphErrors, SluiceError
from framework.graph.graph import DataflowGraph
from framework.graph.resolving.streamed_views import STREAMED_VIEW
from framework.operations.pipeline_port import PipelinePort
from framework.plan.request import RequestOptions
from framework.plan.steps import Plan, breakages, refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """The plan of an update.

    Args:
        plan: its steps.
        warnings: possible problems of a valid pipeline.
        refusals: the errors of tables that would be refused, and of flows with checkpoints that do not fit.
    """

    plan: Plan
    warnings: tuple[SluiceError, ...]
    refusals: tuple[SluiceError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """A pipeline without errors in its code.

    Args:
        graph: its resolved graph, with warnings.
        refusals: the errors of unreadable sources, and of flows with checkpoints that do not fit.
    """

    graph: DataflowGraph
    refusals: tuple[SluiceError, ...]


def plan_update(pipeline: PipelinePort, **request: Unpack[RequestOptions]) -> PlanReport:
    """Plan the update of a request; nothing is written.

    Raises:
        GraphErrors: all errors of the definitions.
        UserError: the request names unknown datasets or flows.
    """
    plan = pipeline.plan(**request)
    graph = pipeline.graph
    streamed = (each for each in graph.warnings if each.condition == STREAMED_VIEW)
    return PlanReport(
        plan=plan,
        warnings=(*streamed, *(each.error() for each in plan.warnings)),
        refusals=(*refusals(graph, plan), *breakages(graph, plan)),
    )


def validate(pipeline: PipelinePort) -> ValidationReport:
    """Check a pipeline; nothing is written.

    Raises:
        GraphErrors: all errors of the definitions.
    """
    graph = pipeline.validate()
    return ValidationReport(graph=graph, refusals=(*graph.faults, *pipeline.foretell()))


def check_runs_natively(spec_file: Path) -> None:
    """Check the library files of a spec, without running them, for features that Databricks does not support.

    Raises:
        GraphErrors: declarations that Databricks does not support.
    """
    # These modules import PyYAML, which a plan does not need.
    from framework.declare.modules.loader import library_files
    from framework.declare.pipeline_spec import load_spec
    from framework.native.module_check import files_faults

    spec = load_spec(spec_file)
    faults = files_faults(library_files(spec, Path(spec.root or spec_file.parent), {".py", ".ipynb"}))
    if faults:
        raise GraphErrors(faults)
