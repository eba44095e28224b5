"""Conditions of names, declarations, the pipeline spec and the loading of modules."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "INVALID_NAME": Condition(
        "{name!r} is not a dataset name.", "Use `table`, `schema.table` or `catalog.schema.table`."
    ),
    "GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE": Condition(
        "A dataset or flow was declared while no pipeline is being loaded.",
        "Run the module with `sluice run`, or pass it to `Pipeline(modules=[…])`.",
    ),
}
