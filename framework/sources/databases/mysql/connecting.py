"""The arguments of a connection: what its URI says, with TLS unless the server is on this machine."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection

_PORT = 3306
_CONNECT_SECONDS = 10
_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
_KNOWN = ("ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "socket", "connect-timeout")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What a URI says.

    Args:
        host: the host.
        port: the port.
        user: the user.
        password: the password.
        database: the default database; empty for none.
        options: the options of the query, with `-` in their names.
    """

    host: str
    port: int
    user: str
    password: str
    database: str
    options: dict[str, str]

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Read a URI.

        Raises:
            SourceError: DATABASE_PARAMETER_UNKNOWN or DATABASE_PARAMETER_WRONG.
        """
        parts = urlsplit(connection.uri)
        options = {name.replace("_", "-").lower(): value for name, value in parse_qsl(parts.query)}
        for name in options:
            if name not in _KNOWN:
                raise SourceError(
                    "DATABASE_PARAMETER_UNKNOWN", connection=connection.name, parameter=name, known=", ".join(_KNOWN)
                )
        mode = options.get("ssl-mode", "").lower().replace("-", "_")
        if mode not in ("", *_MODES):
            raise SourceError(
                "DATABASE_PARAMETER_WRONG",
                connection=connection.name,
                parameter="ssl-mode",
                value=mode,
                expected=", ".join(_MODES),
            )
        return cls(
            host=parts.hostname or "localhost",
            port=parts.port or _PORT,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=unquote(parts.path.lstrip("/")),
            options=options,
        )

    @property
    def is_local(self) -> bool:
        """Whether nobody else can read what is sent."""
        return "socket" in self.options or self.host in _LOOPBACK

    @property
    def mode(self) -> str:
        """How the connection is secured."""
        given = self.options.get("ssl-mode", "").lower().replace("-", "_")
        if given:
            return given
        if "ssl-ca" in self.options:
            return "verify_identity"
        return "preferred" if self.is_local else "required"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of PyMySQL's `connect`."""
        place: dict[str, Any] = {"host": self.host, "port": self.port}
        if "socket" in self.options:
            place = {"unix_socket": self.options["socket"]}
        secured = {"ssl_disabled": True} if self.mode in ("disabled", "preferred") else {"ssl": self.context()}
        return {
            **place,
            **secured,
            "user": self.user,
            "password": self.password.encode(),  # as a text, PyMySQL would send it in latin1
            "connect_timeout": int(self.options.get("connect-timeout", _CONNECT_SECONDS)),
        }

    def context(self) -> ssl.SSLContext:
        """Return how the certificate of the server is checked."""
        context = ssl.create_default_context(cafile=self.options.get("ssl-ca"))
        context.check_hostname = self.mode == "verify_identity"
        if self.mode == "required":
            context.verify_mode = ssl.CERT_NONE
        if "ssl-cert" in self.options:
            context.load_cert_chain(self.options["ssl-cert"], self.options.get("ssl-key"))
        return context
