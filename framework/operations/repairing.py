"""A preview of a way out of a broken flow, before it is applied."""

from __future__ import annotations

from dataclasses import dataclass

from framework.operations.pipeline_port import PipelinePort
from framework.recovery.doctor.finding import Finding, Position
from framework.recovery.doctor.repair import chosen_way, expected_position, request_of_action
from framework.recovery.doctor.way_out import WayOut


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPreview:
    """A way out of a finding, and the flow's position after it as far as a plan can predict it."""

    finding: Finding
    way: WayOut
    after: Position


def preview_repair(pipeline: PipelinePort, finding: Finding, number: int) -> RepairPreview:
    """Return the effects of a way out; nothing is written.

    Args:
        pipeline: the pipeline.
        finding: a finding of its doctor.
        number: the number of the way out, from 1.

    Raises:
        UserError: the finding has no such way out, or it is done by hand.
    """
    way = chosen_way(finding, number)
    assert way.action is not None  # `chosen_way` rejects ways out without an action
    request = request_of_action(way.action)
    plan = None if request is None else pipeline.plan(**request)
    return RepairPreview(finding=finding, way=way, after=expected_position(finding, way, plan))
