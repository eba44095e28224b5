"""Qualified names of datasets: one, two or three parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering

from framework.foundation.errors import UserError

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
# Slashes, control characters, unpaired surrogates; zero-width characters (except the joiners of Persian and emoji), and
# characters that reverse the direction of text.
_UNSAFE = re.compile(
    r"[/\\\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\u115f\u1160\u3164\uffa0\U000e0000-\U000e007f\ud800-\udfff]"
)


@total_ordering
@dataclass(frozen=True, slots=True, kw_only=True)
class QualifiedName:
    """A dataset's full name; names are equal regardless of case.

    Examples:
        >>> str(QualifiedName.parse("Sales.Orders", catalog="main", schema="default"))
        'main.sales.orders'
    """

    catalog: str
    schema: str
    table: str

    @classmethod
    def parse(cls, text: str, *, catalog: str, schema: str) -> QualifiedName:
        """Parse `table`, `schema.table` or `catalog.schema.table`; a leading `LIVE.` is dropped.

        Raises:
            UserError: INVALID_NAME if the text is empty, has more than three parts, or has a part that is not safe as a
                folder name.
        """
        parts = split_parts(text)
        if len(parts) > 1 and parts[0].lower() == "live":
            parts = parts[1:]
        if not 1 <= len(parts) <= 3:
            raise UserError("INVALID_NAME", name=text)
        padded = [catalog, schema][: 3 - len(parts)] + [part.lower() for part in parts]
        return cls(catalog=padded[0].lower(), schema=padded[1].lower(), table=padded[2])

    def __str__(self) -> str:
        """Return the three parts joined by dots, in lower case."""
        return f"{self.catalog}.{self.schema}.{self.table}"

    def __lt__(self, other: QualifiedName) -> bool:
        """Order names by their printed form."""
        return str(self) < str(other)

    @property
    def quoted(self) -> str:
        """The name in SQL, with each part in backticks."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in (self.catalog, self.schema, self.table))


def is_one_name(text: str) -> bool:
    """Return whether a text is a name of one part, such as the name of a catalog.

    Examples:
        >>> is_one_name("main"), is_one_name("a.b"), is_one_name("../a"), is_one_name("")
        (True, False, False, False)
    """
    try:
        return len(split_parts(text)) == 1
    except UserError:
        return False


def string_literal(text: str) -> str:
    r"""Return a text as a string literal of Spark's SQL.

    Examples:
        >>> print(string_literal("it's"))
        'it\'s'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def split_parts(text: str) -> list[str]:
    """Split an identifier at its dots, except for dots in backticks.

    Raises:
        UserError: INVALID_NAME for an empty part, an unpaired backtick, or a part that is not safe as a folder name or
            on a terminal: only dots, or with a slash, a control or invisible character, or an unpaired surrogate.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise UserError("INVALID_NAME", name=text)
        part = (match.group(1) or match.group(2)).replace("``", "`").strip()
        if not part or set(part) <= {"."} or _UNSAFE.search(part):
            raise UserError("INVALID_NAME", name=text)
        parts.append(part)
        position = match.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            raise UserError("INVALID_NAME", name=text)
        position += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortNames:
    """Short forms of a pipeline's names, without their common catalog, or their common catalog and schema.

    Examples:
        >>> names = [QualifiedName(catalog="main", schema="sales", table=table) for table in ("a", "b")]
        >>> short = ShortNames.of(names)
        >>> short(names[0]), short.prefix
        ('a', 'main.sales')
    """

    catalog: str | None = None
    schema: str | None = None

    @classmethod
    def of(cls, names: Iterable[QualifiedName]) -> ShortNames:
        """Return the shortest unambiguous forms of `names`."""
        every = tuple(names)
        catalogs = {name.catalog for name in every}
        schemas = {(name.catalog, name.schema) for name in every}
        if len(catalogs) != 1:
            return cls()
        catalog = next(iter(catalogs))
        return cls(catalog=catalog, schema=next(iter(schemas))[1] if len(schemas) == 1 else None)

    @property
    def prefix(self) -> str:
        """The omitted prefix; empty if nothing is omitted."""
        return ".".join(part for part in (self.catalog, self.schema) if part is not None)

    def __call__(self, name: QualifiedName) -> str:
        """Return the short form of `name`; a name of another catalog or schema keeps the differing parts."""
        if name.catalog != self.catalog:
            return str(name)
        if name.schema != self.schema:
            return f"{name.schema}.{name.table}"
        return name.table
