"""Statements in the log, recognized by their first words and the names in them; no value depends on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from framework.sources.databases.tables import TableName

_TOKEN = re.compile(
    r"""\s+|/\*!(?:M!?)?\d*|/\*M!\d*|/\*.*?\*/|\*/|\#[^\n]*|--(?=\s|$)[^\n]*"""
    r"""|(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(?P<word>[\w$@]+)|(?P<other>.)""",
    re.DOTALL,
)
_MOST_TOKENS = 4000
_DML = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH", "CALL", "DO", "HANDLER", "VALUES", "SELECT"})
_HARMLESS = frozenset(
    {"GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "INSTALL", "UNINSTALL", "USE"}
)
_HARMLESS_OBJECTS = frozenset(
    {
        "AGGREGATE",
        "ALGORITHM",
        "DEFINER",
        "EVENT",
        "FUNCTION",
        "INDEX",
        "FULLTEXT",
        "SPATIAL",
        "UNIQUE",
        "LOGFILE",
        "PACKAGE",
        "PROCEDURE",
        "RESOURCE",
        "ROLE",
        "SEQUENCE",
        "SERVER",
        "SQL",
        "TABLESPACE",
        "TEMPORARY",
        "TRIGGER",
        "USER",
        "VIEW",
        "INSTANCE",
        "UNDO",
        "LIBRARY",
        "EXTERNAL",
        "JSON",
    }
)
_SCHEMAS = ("DATABASE", "SCHEMA")
_NO_COLUMNS = frozenset(
    {
        "CHECK",
        "CONSTRAINT",
        "FOREIGN",
        "FULLTEXT",
        "INDEX",
        "KEY",
        "PARTITION",
        "PERIOD",
        "PRIMARY",
        "SPATIAL",
        "SYSTEM",
        "UNIQUE",
        "VECTOR",
    }
)
"""What ADD and DROP of an ALTER TABLE name beside columns."""
_SKIPPED = frozenset({"OR", "REPLACE", "IF", "NOT", "EXISTS", "ONLINE", "OFFLINE", "IGNORE"})


class StatementKind(StrEnum):
    """The kinds of statements."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    XA_START = "xa start"
    XA_COMMIT = "xa commit"
    XA_ROLLBACK = "xa rollback"
    HARMLESS = "harmless"
    """It changes no row and no table."""
    DML = "dml"
    """It changes rows, which the log does not have."""
    TRUNCATE = "truncate"
    CREATE = "create"
    DROP = "drop"
    RENAME = "rename"
    """It gives tables other names; `tables` has the old ones, `new_tables` the new ones."""
    ALTER = "alter"
    """It changes a table, and no value in it."""
    REWRITE = "rewrite"
    """It changes columns of a table, and perhaps values of rows, which the log does not have."""
    PARTITION = "partition"
    """It removes or exchanges the rows of a partition, which the log does not have."""
    SCHEMA = "schema"
    """It drops a schema."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement in the log.

    Args:
        kind: what it does.
        tables: the tables that it names.
        new_tables: the names that it gives to tables.
        schema: the schema of a statement on a whole schema, else the default schema of its session.
        xid: the XA transaction of its statements.
        is_replacing: whether it drops a table of the name that it creates.
        text: its text, cut.
    """

    kind: StatementKind
    tables: tuple[TableName, ...] = ()
    new_tables: tuple[TableName, ...] = ()
    schema: str = ""
    xid: str = ""
    is_replacing: bool = False
    text: str = ""


def read_statement(text: str, schema: str) -> Statement:
    """Return the kind of a statement and the tables in it.

    Args:
        text: the statement.
        schema: the default schema of its session.

    Examples:
        >>> read_statement("TRUNCATE /* all */ TABLE `t`", "shop").tables
        (TableName(schema='shop', table='t'),)
    """
    return _Reader(text, schema).read()


class _Reader:
    def __init__(self, text: str, schema: str) -> None:
        self._text = text
        self._schema = schema
        self._tokens = _tokens(text)
        self._at = 0

    def read(self) -> Statement:
        first = self._next()
        if first in _SIMPLE:
            return self._of(_SIMPLE[first])
        if first in _DML:
            return self._of(StatementKind.DML, self._written(first))
        special = _SPECIAL.get(first)
        return special(self) if special else self._of(StatementKind.UNKNOWN)

    def _of(
        self, kind: StatementKind, tables: Sequence[TableName] = (), new_tables: Sequence[TableName] = ()
    ) -> Statement:
        return Statement(
            kind=kind,
            tables=tuple(tables),
            new_tables=tuple(new_tables),
            schema=self._schema,
            text=self._text[:200],
        )

    def _word(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place].upper() if place < len(self._tokens) else ""

    def _next(self) -> str:
        word = self._word()
        self._at += 1
        return word

    def _skip(self, words: frozenset[str] = _SKIPPED) -> None:
        while self._word() in words:
            self._at += 1

    def _name(self) -> TableName | None:
        """Read a table's name, with or without its schema."""
        first = self._identifier()
        if first is None:
            return None
        if self._word() != ".":
            return TableName(schema=self._schema, table=first)
        self._at += 1
        second = self._identifier()
        return None if second is None else TableName(schema=first, table=second)

    def _identifier(self) -> str | None:
        if self._at >= len(self._tokens):
            return None
        token = self._tokens[self._at]
        self._at += 1
        if token[0] in '`"':
            return token[1:-1].replace(token[0] * 2, token[0])
        return token if re.match(r"[\w$@]", token) else None

    def _names(self) -> list[TableName]:
        names = []
        while (name := self._name()) is not None:
            names.append(name)
            if self._word() != ",":
                break
            self._at += 1
        return names

    def read_rollback(self) -> Statement:
        is_partial = self._word() == "TO" or self._word(1) == "TO"
        return self._of(StatementKind.HARMLESS if is_partial else StatementKind.ROLLBACK)

    def read_xa(self) -> Statement:
        verb = self._next()
        kinds = {"START": StatementKind.XA_START, "BEGIN": StatementKind.XA_START}
        kinds |= {"COMMIT": StatementKind.XA_COMMIT, "ROLLBACK": StatementKind.XA_ROLLBACK}
        kind = kinds.get(verb, StatementKind.HARMLESS)
        return Statement(
            kind=kind, xid="".join(self._tokens[self._at :]).removesuffix("ONEPHASE"), text=self._text[:200]
        )

    def read_truncate(self) -> Statement:
        self._skip(frozenset({"TABLE"}))
        return self._of(StatementKind.TRUNCATE, self._names())

    def read_rename(self) -> Statement:
        if self._next() not in ("TABLE", "TABLES"):
            return self._of(StatementKind.HARMLESS)  # users
        old: list[TableName] = []
        new: list[TableName] = []
        self._skip()
        while (name := self._name()) is not None:
            while self._word() not in ("TO", ""):  # WAIT n, NOWAIT
                self._at += 1
            self._at += 1
            other = self._name()
            if other is None:
                return self._of(StatementKind.UNKNOWN)
            old.append(name)
            new.append(other)
            if self._word() != ",":
                break
            self._at += 1
        return self._of(StatementKind.RENAME, old, new)

    def read_create(self) -> Statement:
        is_replacing = self._word() == "OR"
        self._skip(frozenset({"OR", "REPLACE"}))
        word = self._next()
        if word == "TABLE":
            self._skip()
            return replace(self._named(StatementKind.CREATE), is_replacing=is_replacing)
        if word in _SCHEMAS:
            return self._of(StatementKind.HARMLESS)
        return self._of(StatementKind.HARMLESS if word in _HARMLESS_OBJECTS else StatementKind.UNKNOWN)

    def read_drop(self) -> Statement:
        word = self._next()
        if word in ("TABLE", "TABLES"):
            self._skip()
            names = self._names()
            return self._of(StatementKind.DROP if names else StatementKind.UNKNOWN, names)
        if word in _SCHEMAS:
            self._skip()
            self._schema = self._identifier() or self._schema
            return self._of(StatementKind.SCHEMA)
        return self._of(StatementKind.HARMLESS if word in _HARMLESS_OBJECTS | {"PREPARE"} else StatementKind.UNKNOWN)

    def read_alter(self) -> Statement:
        self._skip()
        word = self._next()
        if word == "TABLE":
            self._skip()
            name = self._name()
            return self._altered(name) if name else self._of(StatementKind.UNKNOWN)
        if word in _SCHEMAS:
            return self._of(StatementKind.HARMLESS)  # defaults of later tables
        return self._of(StatementKind.HARMLESS if word in _HARMLESS_OBJECTS else StatementKind.UNKNOWN)

    def _altered(self, name: TableName) -> Statement:
        words = [token.upper() for token in self._tokens[self._at :]]
        for index, word in enumerate(words):
            if word == "RENAME" and words[index + 1 : index + 2] not in (["COLUMN"], ["INDEX"], ["KEY"]):
                self._at += index + 1
                self._skip(frozenset({"TO", "AS", "="}))
                other = self._name()
                if other is not None and self._word() != "TO":
                    return self._of(StatementKind.RENAME, [name], [other])
            if word == "PARTITION" and index and words[index - 1] in ("TRUNCATE", "DROP", "EXCHANGE", "DISCARD"):
                return self._of(StatementKind.PARTITION, [name, *self._exchanged(index)])
            if word == "TABLESPACE" and index and words[index - 1] in ("DISCARD", "IMPORT"):
                return self._of(StatementKind.PARTITION, [name])
        is_ignoring = "IGNORE" in map(str.upper, self._tokens[: self._at])  # it deletes rows that are duplicates
        is_rewriting = is_ignoring or len(self._tokens) >= _MOST_TOKENS or any(map(_rewrites, _parts(words)))
        return self._of(StatementKind.REWRITE if is_rewriting else StatementKind.ALTER, [name])

    def _exchanged(self, after: int) -> list[TableName]:
        """Return the table of `EXCHANGE PARTITION p WITH TABLE t`."""
        for place in range(self._at + after, len(self._tokens) - 1):
            if self._tokens[place].upper() == "TABLE":
                self._at = place + 1
                name = self._name()
                return [name] if name else []
        return []

    def _named(self, kind: StatementKind) -> Statement:
        name = self._name()
        return self._of(kind, [name]) if name else self._of(StatementKind.UNKNOWN)

    def _written(self, verb: str) -> list[TableName]:
        """Return the table of DML with one table; none if it may have several."""
        modifiers = {"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO", "FROM", "QUICK"}
        if verb not in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
            return []
        self._skip(frozenset(modifiers))
        name = self._name()
        is_single = verb in ("INSERT", "REPLACE") or self._word() in ("SET", "WHERE", "")
        return [name] if name and is_single else []


_SIMPLE = {
    "": StatementKind.HARMLESS,
    "BEGIN": StatementKind.BEGIN,
    "COMMIT": StatementKind.COMMIT,
    "SAVEPOINT": StatementKind.HARMLESS,
    "RELEASE": StatementKind.HARMLESS,
    **dict.fromkeys(_HARMLESS, StatementKind.HARMLESS),
}
_SPECIAL: dict[str, Callable[[_Reader], Statement]] = {
    "ROLLBACK": _Reader.read_rollback,
    "XA": _Reader.read_xa,
    "TRUNCATE": _Reader.read_truncate,
    "RENAME": _Reader.read_rename,
    "CREATE": _Reader.read_create,
    "DROP": _Reader.read_drop,
    "ALTER": _Reader.read_alter,
}


def _parts(words: Sequence[str]) -> list[list[str]]:
    """Return the parts of an ALTER TABLE, which commas outside of parentheses separate."""
    parts, depth = [list[str]()], 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _rewrites(part: Sequence[str]) -> bool:
    """Whether a part of an ALTER TABLE may change values of rows, or which column has them.

    A foreign key may do so from then on: MariaDB does not log the rows that it changes with those of its parent.
    """
    verb, *rest = part or [""]
    if "REFERENCES" in rest and not {"CASCADE", "SET"}.isdisjoint(rest):
        return True
    if verb in ("CHANGE", "MODIFY", "CONVERT"):
        return True
    if verb == "RENAME":
        return rest[:1] == ["COLUMN"]
    if verb == "DROP":
        return rest[:1] != [] and rest[0] not in _NO_COLUMNS
    if verb == "ADD" and rest[:1] != [] and rest[0] not in _NO_COLUMNS:
        pairs = [*zip(rest, [*rest[1:], ""], strict=True)]
        is_filled = any(word == "DEFAULT" and after != "NULL" for word, after in pairs)
        # Without `explicit_defaults_for_timestamp`, a TIMESTAMP that does not say NULL is filled with the time.
        is_filled = is_filled or ("TIMESTAMP" in rest and "NULL" not in rest)
        return is_filled or ("NOT", "NULL") in pairs or not {"SERIAL", "AUTO_INCREMENT", "PRIMARY"}.isdisjoint(rest)
    return False


def _tokens(text: str) -> list[str]:
    """Return the first tokens of a statement, without comments; the text of an executable comment is kept."""
    tokens = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup is not None:
            tokens.append(match[0])
            if len(tokens) >= _MOST_TOKENS:
                break
    return tokens
