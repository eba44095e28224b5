"""Table properties by their effect here: honoured, or without an effect. All others of these kinds are errors.

The lists are closed. Sources: Databricks' pages "Table properties reference" of Delta Lake, "Control data file size"
and "Pipeline properties reference", as of 2026. `validate` checks other `delta.*` properties with Delta itself.
Properties with other names are the user's own.
"""

from __future__ import annotations

from framework.declare.registry import add_note
from framework.declare.specs import Pairs
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_name

_SIZES = "it tunes the sizes of files"
_SERVICE = "it is about a service of Databricks"
_WITHOUT_EFFECT = {
    **dict.fromkeys(("delta.tuneFileSizesForRewrites", "delta.targetFileSize", "delta.autoOptimize"), _SIZES),
    "delta.feature.catalogManaged": "the tables are in the storage of the pipeline",
    "delta.feature.catalogOwned-preview": "the tables are in the storage of the pipeline",
    "delta.enablePredictiveOptimization": _SERVICE,
    "delta.workloadBasedColumns.optimizerStatistics": _SERVICE,
    "pipelines.autoOptimize.zOrderCols": "`cluster_by` chooses the columns of a layout",
    "pipelines.channel": _SERVICE,
    "pipelines.trigger.interval": "it is a key of `configuration`, for all tables",
}
_WEAKER = "Delta outside of Databricks has Serializable only, which is stricter"
HONOURED = ("pipelines.reset.allowed", "pipelines.autoOptimize.managed")
"""Properties of pipelines that Sluice itself reads."""

_OF_PIPELINES, _PROTECTING = "pipelines.", "reset.allowed"
_UNDOCUMENTED = "Databricks documents no such property of tables, and Sluice has none"

TUNING = {name.lower(): why for name, why in _WITHOUT_EFFECT.items()}
"""Properties that have no effect, in lower case, and why."""


def without_tuning(properties: Pairs, location: SourceLocation | None) -> Pairs:
    """Return the properties of a table without mere tuning; add a note for each omitted property.

    Args:
        properties: names and values as declared.
        location: the declaration.
    """
    kept = []
    for name, value in properties:
        why = _without_effect(name, value)
        if why is None:
            kept.append((name, value))
            continue
        add_note(UserError("TABLE_PROPERTY_WITHOUT_EFFECT", location=location, property=f"{name} = {value}", why=why))
    return tuple(kept)


def _without_effect(name: str, value: str) -> str | None:
    """Return why a property has no effect; None if it has an effect, or is likely misspelled."""
    lower = name.lower()
    if (lower, value.lower()) == ("delta.isolationlevel", "writeserializable"):  # the default on Databricks
        return _WEAKER
    if lower in TUNING:
        return TUNING[lower]
    is_other = lower.startswith(_OF_PIPELINES) and lower not in map(str.lower, HONOURED)
    return _UNDOCUMENTED if is_other and not is_misspelled(name) else None


def is_misspelled(name: str) -> bool:
    """Return whether a property is probably misspelled and meant to protect a table from full refreshes.

    Examples:
        >>> [is_misspelled(f"pipelines.{name}") for name in ("reset.alowed", "reset.allowed", "autoOptimize.other")]
        [True, False, False]
    """
    rest = name.lower().removeprefix(_OF_PIPELINES)
    is_near = name.lower().startswith(_OF_PIPELINES) and nearest_name(rest, [_PROTECTING]) is not None
    return is_near and rest != _PROTECTING
