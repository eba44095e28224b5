"""Connections to source databases: their names, their definitions, and their text without secrets.

A connection is defined in the environment (`SLUICE_CONNECTION_<NAME>`) or in `connections.yml` beside the spec. Its
user and password never appear in a text: neither in a repr nor in an error or a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.secrets.known_secrets import remember_environment, remember_secrets
from framework.foundation.secrets.secrecy import hide_in_text, is_secret_name
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml
from framework.sources.databases.schemes import connection_example, find_dialect

FILE_NAME = "connections.yml"
_PREFIX = "SLUICE_CONNECTION_"
_NOT_YET = ("db2", "mongodb", "oracle")
# Written as a reference, because `hide_in_text` does not replace references.
_HIDDEN = "${password}"
# A shorter secret is hidden as a whole word only: it may be part of any word.
_SHORTEST_SECRET = 4
_FILE = YamlFormat(
    node=YamlNode,
    unreadable="DATABASE_CONNECTIONS_UNREADABLE",
    invalid="DATABASE_CONNECTIONS_INVALID",
    may_be_empty=True,
)
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    r"(?P<hosts>[^@/?#\s]*)(?:/(?P<database>[^@/?#\s]*))?(?:\?(?P<query>[^#\s]*))?"
)
# A % without two hexadecimal digits: libpq rejects the whole text.
_STRAY = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
# Host names, addresses, addresses of IPv6 in brackets and percent-encoded socket folders, with ports.
_HOSTS = re.compile(
    r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^:,\[\]]*)(?::\d{0,5})?(?:,(?:\[[0-9A-Fa-f:.%\w]+\]|[^:,\[\]]*)(?::\d{0,5})?)*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A named connection to a source database.

    Args:
        name: the name that the spec uses.
        uri: the connection string, with user and password; for a driver only, never for a text.

    Raises:
        UserError: DATABASE_CONNECTION_INVALID or DATABASE_KIND_NOT_SUPPORTED.

    Examples:
        >>> Connection(name="bank", uri="postgresql://joe:hunter2@db.example.com:5433/bank?sslmode=require")
        Connection(bank: postgresql://db.example.com:5433/bank)
    """

    name: str
    uri: str = field(repr=False)

    def __post_init__(self) -> None:
        match = _URI.fullmatch(self.uri)
        if match is None or not _HOSTS.fullmatch(match["hosts"]) or _has_stray_user(match) or _STRAY.search(self.uri):
            raise UserError("DATABASE_CONNECTION_INVALID", name=self.name, example=connection_example())
        scheme = match["scheme"].lower()
        if find_dialect(scheme) is None:
            later = f"{scheme} is not supported yet" if scheme in _NOT_YET else f"`{scheme}` is unknown"
            raise UserError("DATABASE_KIND_NOT_SUPPORTED", name=self.name, problem=later, example=connection_example())
        self._remember_secrets()

    @property
    def scheme(self) -> str:
        """The scheme, in lower case; it determines the kind of database."""
        return _matched(self.uri)["scheme"].lower()

    @property
    def address(self) -> str:
        """Hosts, ports and database, without user and password, such as `postgresql://db:5432/bank`."""
        match = _matched(self.uri)
        hosts = match["hosts"] or _query(match).get("host", "")
        return f"{match['scheme']}://{unquote(hosts)}/{unquote(match['database'] or '')}"

    def hide(self, text: str) -> str:
        """Return a text without the passwords of this connection and other secrets in known formats.

        Examples:
            >>> bank = Connection(name="bank", uri="postgresql://joe:a%40bc@db/bank")
            >>> bank.hide("no route for postgresql://joe:a%40bc@db/bank, password=a@bc")
            'no route for postgresql://joe:${password}@db/bank, password=${password}'
        """
        for secret in sorted(set(self._secrets()), key=len, reverse=True):
            text = _without(text, secret)
        return hide_in_text(text)

    def __repr__(self) -> str:
        return f"Connection({self})"

    def __str__(self) -> str:
        return f"{self.name}: {self.address}"

    def _remember_secrets(self) -> None:
        """Hide the secrets in all texts of this process, except a secret that equals the user, a host or the database.

        With such a password, the names of tables and columns of a development database would be hidden.
        """
        match = _matched(self.uri)
        hosts = re.split(r"[,:]", match["hosts"] or "")
        shown = {unquote(each or "") for each in (match["user"], match["database"], *hosts)}
        remember_secrets(*(secret for secret in self._secrets() if unquote(secret) not in shown))

    def _secrets(self) -> Iterator[str]:
        """Yield each secret as written in the URI, decoded, and escaped as in a keyword connection string."""
        match = _matched(self.uri)
        pairs = (pair.partition("=") for pair in (match["query"] or "").split("&"))
        encoded = [match["password"] or "", *(value for key, _, value in pairs if is_secret_name(unquote(key)))]
        for secret in filter(None, encoded):
            plain = unquote(secret)
            yield from (secret, plain, plain.replace("\\", "\\\\").replace("'", "\\'"))


def find_connection(name: str, folder: Path, environ: Mapping[str, str]) -> Connection:
    """Return the connection of a name: from the environment, else from `connections.yml`.

    Args:
        name: the name, as in the spec.
        folder: the folder of the spec.
        environ: the environment variables.

    Raises:
        UserError: DATABASE_CONNECTION_UNKNOWN; DATABASE_CONNECTION_INVALID, DATABASE_CONNECTIONS_UNREADABLE,
            DATABASE_CONNECTIONS_INVALID or DATABASE_KIND_NOT_SUPPORTED.
    """
    uri = environ.get(variable_name(name), "").strip()
    if uri:
        return Connection(name=name, uri=uri)
    path = folder / FILE_NAME
    node = read_yaml(path, _FILE) if path.exists() else None
    entries: dict[str, YamlNode] = {} if node is None else node.value
    if name in entries:
        return Connection(name=name, uri=_uri_of(name, entries[name]))
    known = sorted({*entries, *_names_in(environ)})
    raise UserError(
        "DATABASE_CONNECTION_UNKNOWN",
        name=name,
        known=", ".join(known) or "none",
        hint=nearest_hint(name, known),
        variable=variable_name(name),
        path=path,
        example=connection_example(),
    )


def remember_connections(folder: Path | None, environ: Mapping[str, str]) -> None:
    """Hide the passwords of all connections in all texts of this process, before any connection is used.

    Args:
        folder: the folder of the spec; None for a pipeline without one.
        environ: the environment variables; other variables with the name of a secret are hidden, too.
    """
    remember_environment(environ)
    uris = [value.strip() for key, value in environ.items() if key.startswith(_PREFIX)]
    path = None if folder is None else folder / FILE_NAME
    # An invalid file or connection is an error of the flows that use it.
    with suppress(UserError):
        uris += read_uris(path) if path is not None and path.exists() else ()
    for uri in uris:
        with suppress(UserError):
            Connection(name="", uri=uri)


def variable_name(name: str) -> str:
    """Return the environment variable that defines a connection.

    Examples:
        >>> variable_name("bank-eu")
        'SLUICE_CONNECTION_BANK_EU'
    """
    return _PREFIX + "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name.upper())


def has_password(uri: str) -> bool:
    """Return whether a connection string contains a password."""
    match = _URI.fullmatch(uri)
    return match is not None and bool(match["password"] or any(is_secret_name(key) for key in _query(match)))


def read_uris(path: Path) -> tuple[str, ...]:
    """Return the connection strings of a `connections.yml`, without invalid entries.

    Raises:
        UserError: DATABASE_CONNECTIONS_UNREADABLE or DATABASE_CONNECTIONS_INVALID.
    """
    entries = (node.get("uri") if node.is_map else node for node in read_yaml(path, _FILE).value.values())
    return tuple(node.value for node in entries if node is not None and isinstance(node.value, str))


def _uri_of(name: str, node: YamlNode) -> str:
    """Return the connection string of an entry: a text, or the only key `uri` of a mapping."""
    value = node.value
    if node.is_map and set(value) == {"uri"}:
        value = value["uri"].value
    if not isinstance(value, str) or not value.strip():
        raise UserError("DATABASE_CONNECTION_INVALID", location=node.location, name=name, example=connection_example())
    return value.strip()


def _names_in(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the connections that the environment defines, in lower case."""
    for variable, value in environ.items():
        if variable.startswith(_PREFIX) and value.strip():
            yield variable.removeprefix(_PREFIX).lower()


def _matched(uri: str) -> re.Match[str]:
    match = _URI.fullmatch(uri)
    assert match is not None, "a connection is valid by construction"
    return match


def _query(match: re.Match[str]) -> dict[str, str]:
    """Return the decoded parameters of a connection string."""
    pairs = (pair.partition("=") for pair in (match["query"] or "").split("&") if pair)
    return {unquote(key): unquote(value) for key, _, value in pairs}


def _has_stray_user(match: re.Match[str]) -> bool:
    """Return whether an unencoded `?` in a password has moved the rest of it and the host into the parameters."""
    return match["user"] is None and "@" in (match["query"] or "")


def _without(text: str, secret: str) -> str:
    if len(secret) >= _SHORTEST_SECRET:
        return text.replace(secret, _HIDDEN)
    return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", lambda _: _HIDDEN, text)
