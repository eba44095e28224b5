"""The rule for properties of tables that Delta would refuse when the table is created, after others were written."""

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
    """A property that protects a table has its name, and one of Delta is known to it, with a value that it takes."""
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
    """Why Delta refuses properties, as it checks them when it creates a table; None if it takes them."""
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
    """The feature of a table that a property is about; empty for another property."""
    return name[len(_FEATURE) :] if name.lower().startswith(_FEATURE) else ""
