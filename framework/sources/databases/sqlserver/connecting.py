"""The connection string of the driver, and the options of this dialect in the URL of a connection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection

_CHANGES, _TIMEOUT = "changes", "logintimeout"
CAPTURE, TRACKING = "capture", "tracking"
_LOGIN_SECONDS = 15
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Parameters of the URL, in lower case, with their names in the connection string.
_PARAMETERS = {
    "encrypt": "Encrypt",
    "trustservercertificate": "TrustServerCertificate",
    "hostnameincertificate": "HostnameInCertificate",
    "servercertificate": "ServerCertificate",
    "authentication": "Authentication",
    "trusted_connection": "Trusted_Connection",
    "applicationintent": "ApplicationIntent",
    "multisubnetfailover": "MultiSubnetFailover",
    "packetsize": "PacketSize",
}
_KNOWN = ", ".join((*_PARAMETERS, _CHANGES, _TIMEOUT))
_NEEDS_BRACES = re.compile(r"[;{}=\s]")


@dataclass(frozen=True, slots=True)
class _Url:
    host: str
    port: int | None
    user: str | None
    password: str | None
    database: str
    parameters: dict[str, str]


def connection_text(connection: Connection) -> str:
    """Return the connection string, which contains the password.

    A connection is encrypted unless the URL says `encrypt=no`. The certificate of a server on this machine is trusted.

    Raises:
        UserError: SQLSERVER_PARAMETER_INVALID.
    """
    url = _read(connection)
    server = url.host if url.port is None else f"{url.host},{url.port}"
    values = {"Server": server, "Database": url.database, "Encrypt": "yes"}
    if url.host in _LOOPBACK:
        values["TrustServerCertificate"] = "yes"
    values |= {_PARAMETERS[name]: value for name, value in url.parameters.items() if name in _PARAMETERS}
    if url.user is not None:
        values |= {"UID": url.user, "PWD": url.password or ""}
    return ";".join(f"{name}={_value(value)}" for name, value in values.items() if value)


def login_seconds(connection: Connection) -> int:
    """Return how long a login may take, by the parameter `loginTimeout`.

    Raises:
        UserError: SQLSERVER_PARAMETER_INVALID.
    """
    text = _read(connection).parameters.get(_TIMEOUT, str(_LOGIN_SECONDS))
    if not text.isascii() or not text.isdigit():
        raise _invalid(connection, _TIMEOUT, text)
    return int(text)


def changes_way(connection: Connection) -> str:
    """Return how changes are read: by CAPTURE or by TRACKING, as the parameter `changes` says.

    Raises:
        UserError: SQLSERVER_PARAMETER_INVALID.
    """
    found = _read(connection).parameters.get(_CHANGES, CAPTURE).lower()
    if found not in (CAPTURE, TRACKING):
        raise _invalid(connection, _CHANGES, found)
    return found


def login_user(connection: Connection) -> str:
    """Return the user of the URL, for statements that an administrator runs."""
    return _read(connection).user or "<user of the connection>"


def _read(connection: Connection) -> _Url:
    parts = urlsplit(connection.uri)
    given = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
    for name, value in given.items():
        if name not in _PARAMETERS and name not in (_CHANGES, _TIMEOUT):
            raise _invalid(connection, name, value)
    return _Url(
        host=unquote(parts.hostname or "localhost"),
        port=parts.port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        database=unquote(parts.path.removeprefix("/")),
        parameters=given,
    )


def _invalid(connection: Connection, name: str, value: str) -> UserError:
    return UserError(
        "SQLSERVER_PARAMETER_INVALID", connection=connection.name, parameter=name, value=value, known=_KNOWN
    )


def _value(text: str) -> str:
    return "{" + text.replace("}", "}}") + "}" if _NEEDS_BRACES.search(text) else text
