"""The rule for table properties: reports properties that Delta would refuse later, after other tables were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from framework.declare.interface.table_properties import HONOURED, is_misspelled
from framework.declare.registry import Registry
from framework.engine.delta.definitions import has_feature, validate_properties
from framework.foundation.errors import UserError
from framework.graph.queries.calls import SPARK_ERRORS, first_words

_DELTA = "delta."
_FEATURE = "delta.feature."


def delta_properties(registry: Registry) -> Iterator[UserError]:
    """Properties that protect a table must be spelled right; Delta properties must exist and have valid values."""
    for dataset in registry.datasets:
        for name, _ in dataset.table_properties:
            if is_misspelled(name):
                yield UserError(
                    "TABLE_PROPERTY_UNKNOWN",
                    location=dataset.location,
                    dataset=dataset.name,
                    property=name,
                    meant=HONOURED[0],
                )
        found = {name: value for name, value in dataset.table_properties if name.lower().startswith(_DELTA)}
        cause = _refusal(found)
        if cause is not None:
            name = next((name for name in found if _refusal({name: found[name]})), [*found][-1])
            cause = _refusal({name: found[name]}) or cause
            yield UserError(
                "TABLE_PROPERTY_INVALID",
                location=dataset.location,
                dataset=dataset.name,
                property=name,
                value=found[name],
                cause=cause,
            )


def _refusal(properties: Mapping[str, str]) -> str | None:
    """Return why Delta would refuse the properties when it creates a table; None if it accepts them."""
    if not properties:
        return None
    for name in filter(_feature, properties):
        if not has_feature(_feature(name)):
            return "Delta has no such feature."
    try:
        validate_properties(properties)
    except SPARK_ERRORS as error:
        return first_words(error)
    return None


def _feature(name: str) -> str:
    """Return the table feature that a property is about; empty for any other property."""
    return name[len(_FEATURE) :] if name.lower().startswith(_FEATURE) else ""
