"""Conditions of the dataflow graph and its rules."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "PIPELINE_GRAPH_INVALID": Condition("The pipeline has {count} fault(s); nothing was written.", ""),
}
