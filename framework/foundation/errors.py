"""Every error a user can meet, with one shape: condition, what, where, what to do next.

The hierarchy::

    SluiceError
    ├── UserError          the module, the spec or the command line is wrong: exit code 2
    │   └── UserErrors     several of them, reported together
    │       ├── GraphErrors    the faults of one pipeline
    │       └── RequestErrors  the faults of one request
    ├── OperationError     an update or operation failed while it ran: exit code 1
    │   └── SourceError    what was read from is at fault (connection, permission, position)
    └── InternalError      a bug of ours: exit code 1, with a plea to report it

Messages live in `conditions.py`; code raises `UserError("CONDITION", field=value)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from framework.foundation.conditions import describe
from framework.foundation.locations import SourceLocation


class SluiceError(Exception):
    """An error with a stable condition name, its fields, a place and a remedy.

    Args:
        condition: a key of the catalogue, such as `PIPELINE_DUPLICATE_IDENTIFIERS.FLOW`.
        location: file and line of the user's source that caused it, where there is one.
        **fields: the values of the catalogue text's placeholders.

    Raises:
        KeyError: the condition or one of its placeholders is not in the catalogue.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, condition: str, *, location: SourceLocation | None = None, **fields: object) -> None:
        self.condition = condition
        self.location = location
        self.fields = fields
        self.what, self.remedy = describe(condition, fields)
        super().__init__(self.render())

    def at(self, location: SourceLocation | None) -> SluiceError:
        """The same error at another place."""
        return type(self)(self.condition, location=location, **self.fields)

    def render(self) -> str:
        """One short paragraph: condition, what, where, what to do next."""
        where = f"\n  at {self.location}" if self.location else ""
        remedy = f"\n  -> {self.remedy}" if self.remedy else ""
        return f"[{self.condition}] {self.what}{where}{remedy}"


class UserError(SluiceError):
    """The user's definitions, spec or command line are wrong; nothing was written."""

    exit_code: ClassVar[int] = 2


class UserErrors(UserError):
    """Several errors at once, in the order of their source lines, below a heading that counts them."""

    heading: ClassVar[str]

    def __init__(self, errors: Sequence[SluiceError]) -> None:
        self.errors = tuple(sorted(_each(errors), key=_place))
        super().__init__(self.heading, count=len(self.errors))

    def at(self, location: SourceLocation | None) -> UserErrors:
        """The same errors; those without a place get this one."""
        return type(self)([error if error.location else error.at(location) for error in self.errors])

    def render(self) -> str:
        """Each fault as a paragraph of its own, below the count."""
        errors = getattr(self, "errors", ())
        return "\n\n".join([super().render(), *(error.render() for error in errors)])


class GraphErrors(UserErrors):
    """All faults of a pipeline's spec, modules or graph."""

    heading = "PIPELINE_GRAPH_INVALID"


class RequestErrors(UserErrors):
    """All faults of a request; the pipeline itself may be sound."""

    heading = "REQUEST_INVALID"


class OperationError(SluiceError):
    """An update or operation failed while it ran."""


class SourceError(OperationError):
    """What a flow reads from is at fault: connection, permission or position."""


class InternalError(SluiceError):
    """A promise of ours was broken: a bug to report."""


def _each(errors: Iterable[SluiceError]) -> Iterator[SluiceError]:
    """The faults, those inside a `UserErrors` one by one."""
    for error in errors:
        if isinstance(error, UserErrors):
            yield from error.errors
        else:
            yield error


def _place(error: SluiceError) -> tuple[str, int, str]:
    """What faults are ordered by: file, line, condition."""
    where = error.location
    return (where.file, where.line, error.condition) if where is not None else ("", 0, error.condition)
