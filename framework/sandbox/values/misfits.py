"""Values of tests that a type does not have, each with the cause."""

from __future__ import annotations

from dataclasses import dataclass


class MisfitError(ValueError):
    """A value that a type does not have.

    Args:
        value: the value.
        cause: why the type does not have it.
        wanted: the type, once it is known.
        path: the fields, elements and keys that lead to the value inside of a nested one.
    """

    def __init__(self, value: object, cause: str, wanted: str = "", path: tuple[str, ...] = ()) -> None:
        self.value = value
        self.cause = cause
        self.wanted = wanted
        self.path = path
        super().__init__(cause)

    def within(self, place: str) -> MisfitError:
        """Return the error of the nested value that has this one at a place."""
        return MisfitError(self.value, self.cause, self.wanted, (place, *self.path))


def wrong_type(value: object, wanted: str) -> MisfitError:
    """Return the error of a value of another Python type."""
    kind = "text" if isinstance(value, str) else type(value).__name__
    return MisfitError(value, f"it is of the type {kind}, not {wanted}.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Misfit:
    """What stands for an expected value that the type of its column does not have; it equals no other value.

    Args:
        value: the value.
        cause: why the type does not have it.
    """

    value: object
    cause: str
