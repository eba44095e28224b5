"""Properties of tables that only tune Databricks' own writers and services: no row and no reader depends on them.

The list is closed. Sources: Databricks' pages "Table properties reference" of Delta Lake, "Control data file size" and
"Pipeline properties reference", as of 2026. Open Delta refuses each `delta.*` property that it does not know.
"""

from __future__ import annotations

from framework.declare.registry import add_note
from framework.declare.specs import Pairs
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_SIZES = "it tunes the sizes of files"
_SERVICE = "it is about a service of Databricks"
_WITHOUT_EFFECT = {
    **dict.fromkeys(("delta.tuneFileSizesForRewrites", "delta.targetFileSize", "delta.autoOptimize"), _SIZES),
    "delta.feature.catalogManaged": "the tables are in the storage of the pipeline",
    "delta.feature.catalogOwned-preview": "the tables are in the storage of the pipeline",
    "delta.enablePredictiveOptimization": _SERVICE,
    "delta.workloadBasedColumns.optimizerStatistics": _SERVICE,
    "pipelines.autoOptimize.zOrderCols": "`cluster_by` chooses the columns of a layout",
}
TUNING = {name.lower(): why for name, why in _WITHOUT_EFFECT.items()}
"""Properties that have no effect, in lower case, and why."""


def without_tuning(properties: Pairs, location: SourceLocation | None) -> Pairs:
    """Return the properties of a table without those that only tune; note each of these.

    Args:
        properties: names and values as declared.
        location: the declaration.
    """
    for name, value in properties:
        why = TUNING.get(name.lower())
        if why is not None:
            text = f"{name} = {value}"
            add_note(UserError("TABLE_PROPERTY_WITHOUT_EFFECT", location=location, property=text, why=why))
    return tuple(pair for pair in properties if pair[0].lower() not in TUNING)
