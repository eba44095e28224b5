"""All errors for users, with one structure: condition, problem, location, remedy.

The hierarchy::

    SluiceError
    ├── UserError          the module, the spec or the command line is wrong: exit code 2, nothing is written
    │   └── UserErrors     several of them, reported together
    │       ├── GraphErrors    the faults of one pipeline
    │       └── RequestErrors  the faults of one request
    ├── OperationError     an update or operation failed while it ran: exit code 1
    │   ├── SourceError    a source failed (connection, permission, position, data): its dataset fails alone
    │   └── RemoteError    an error from another process, known by its text only
    └── InternalError      a bug in Sluice: exit code 1, with a request to report it

Messages live in `conditions.py`; code raises `UserError("CONDITION", field=value)`.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from framework.foundation.conditions import describe
from framework.foundation.locations import SourceLocation, innermost_user_line
from framework.foundation.secrets.known_secrets import hide_known
from framework.foundation.wording import printable_lines

# The last line of a traceback, followed by the lines of `SluiceError.render`. Spark appends its own text.
_RENDERED = re.compile(
    r"^framework\.foundation\.errors\.(?P<kind>\w+): \[(?P<condition>[A-Z][A-Z0-9_.]*)\] (?P<what>.*?)"
    r"(?:\n  at [^\n]*)?(?:\n     [^\n]*)?(?:\n  -> (?P<remedy>[^\n]*))?\s*(?=\Z|\n\n|\n\s+at |\s*SQLSTATE: |\n\S)",
    re.MULTILINE | re.DOTALL,
)


class SluiceError(Exception):
    """An error with a stable condition name, its fields, a location and a remedy.

    Args:
        condition: a key of the catalogue, such as `PIPELINE_DUPLICATE_IDENTIFIERS.FLOW`.
        location: file and line of the user's source that caused it, if known.
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
        """Return the same error at another location."""
        return type(self)(self.condition, location=location, **self.fields)

    def render(self) -> str:
        """Return one short paragraph: condition, problem, location, remedy."""
        return self._paragraph(self.location)

    def _paragraph(self, location: SourceLocation | None) -> str:
        where = f"\n  at {location}" if location else ""
        where += f"\n     {location.cell_line}" if location and location.cell_line else ""
        remedy = f"\n  -> {self.remedy}" if self.remedy else ""
        # A secret may have become known after the error was created.
        return printable_lines(hide_known(f"[{self.condition}] {self.what}{where}{remedy}"))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook cell prints instead of a traceback; called by IPython."""
        return self._paragraph(self.location or innermost_user_line(self.__traceback__)).splitlines()


class UserError(SluiceError):
    """The user's definitions, spec or command line are wrong; nothing was written."""

    exit_code: ClassVar[int] = 2


class UserErrors(UserError):
    """Several errors, in the order of their source lines, below a heading with their number."""

    heading: ClassVar[str]

    def __init__(self, errors: Sequence[SluiceError]) -> None:
        self.errors = tuple(sorted(_each(errors), key=_sort_key))
        super().__init__(self.heading, count=len(self.errors))

    def at(self, location: SourceLocation | None) -> UserErrors:
        """Return the same errors; this location is set on errors without one."""
        return type(self)([error if error.location else error.at(location) for error in self.errors])

    def render(self) -> str:
        """Return one paragraph per error, below the heading."""
        errors = getattr(self, "errors", ())
        return "\n\n".join([super().render(), *(error.render() for error in errors)])

    def _render_traceback_(self) -> list[str]:
        """Return all paragraphs; each one has the location of its error."""
        return self.render().splitlines()


class GraphErrors(UserErrors):
    """All faults of a pipeline's spec, modules or graph."""

    heading = "PIPELINE_GRAPH_INVALID"


class RequestErrors(UserErrors):
    """All faults of a request; the pipeline itself may be valid."""

    heading = "REQUEST_INVALID"


class OperationError(SluiceError):
    """An update or operation failed while it ran."""


class SourceError(OperationError):
    """The source of a flow failed: connection, permission or position."""


class RemoteError(OperationError):
    """An error of Sluice in one of Spark's Python processes, such as one that reads a database; only its text is known.

    Args:
        condition: the condition named in the text.
        location: file and line of the user's source.
        what: the problem, as rendered in that process.
        remedy: what to do next, as rendered in that process.
        is_users: whether it was a UserError in that process.
    """

    def __init__(
        self, condition: str, *, location: SourceLocation | None = None, what: str, remedy: str, is_users: bool = False
    ) -> None:
        self.condition = condition
        self.location = location
        self.fields = {"what": what, "remedy": remedy, "is_users": is_users}
        self.is_users = is_users
        self.what, self.remedy = printable_lines(hide_known(what)), printable_lines(hide_known(remedy))
        Exception.__init__(self, self.render())


def remote_error(text: str) -> RemoteError | None:
    """Return the Sluice error at the end of a traceback in the text of Spark's exception; None if there is none."""
    found = [*_RENDERED.finditer(text)]
    if not found:
        return None
    match = found[-1]
    return RemoteError(
        match["condition"],
        what=match["what"].strip(),
        remedy=(match["remedy"] or "").strip(),
        is_users=match["kind"] == UserError.__name__,
    )


class InternalError(SluiceError):
    """A violated invariant: a bug in Sluice to report."""

    def _render_traceback_(self) -> list[str]:
        """Return the paragraph with the traceback, which a bug report needs."""
        return hide_known("".join(traceback.format_exception(self))).splitlines()


def _each(errors: Iterable[SluiceError]) -> Iterator[SluiceError]:
    """Yield the errors, with each `UserErrors` flattened."""
    for error in errors:
        if isinstance(error, UserErrors):
            yield from error.errors
        else:
            yield error


def _sort_key(error: SluiceError) -> tuple[str, int, str]:
    """Return the sort key of errors: file, line, condition."""
    where = error.location
    return (where.file, where.line, error.condition) if where is not None else ("", 0, error.condition)
