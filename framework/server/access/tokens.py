"""Tokens for programs: hashed, with a role, perhaps for some pipelines, until a time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.errors import UserError
from framework.foundation.files.private_files import replace_private_file
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.nearest import nearest_hint
from framework.server.access.roles import Caller, Role
from framework.server.access.state import locked

_FORMAT = StoredFormat(1)
_FILE = "tokens.json"
_TOKEN = re.compile(r"slk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_USE_SECONDS = 60.0
_NO_FILE = (-1, -1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """A token as it is stored: its hash, never the token."""

    id: str
    name: str
    role: Role
    sha256: str
    pipelines: tuple[str, ...] = ()
    created_at: str = ""
    expires_at: str | None = None
    last_used_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the token for a list, without its hash."""
        return {name: value for name, value in asdict(self).items() if name != "sha256"}


class TokenStore:
    """The tokens of a user's servers, in a file that only the user can read.

    Commands change the file while a server runs; the server reads it again when it has changed, so that a revoked token
    ends with the next request. Each change reads and replaces the file under the lock of the folder, so that none of
    two processes undoes the change of the other one.

    Args:
        folder: the folder of the server's state.
        clock: decides which tokens have expired.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._path = folder / _FILE
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int, int], tuple[StoredToken, ...]] = (_NO_FILE, ())
        self._used: dict[str, float] = {}

    def create(
        self, name: str, role: Role, *, pipelines: Sequence[str] = (), expires_after: timedelta | None = None
    ) -> tuple[StoredToken, str]:
        """Create a token; return it as stored, and its text, which is not stored.

        Raises:
            UserError: SERVE_TOKEN_INVALID, SERVE_TOKEN_EXISTS.
        """
        if not _NAME.fullmatch(name):
            expected = "It has 1 to 100 letters, digits, dots, hyphens, at signs and underscores."
            raise UserError("SERVE_TOKEN_INVALID", what="name", value=name, expected=expected)
        now = self._clock.now()
        with self._changing():
            tokens = self._read()
            if any(each.name == name for each in tokens):
                raise UserError("SERVE_TOKEN_EXISTS", name=name)
            id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
            text = f"slk_{id_}_{secret}"
            stored = StoredToken(
                id=id_, name=name, role=role, sha256=_digest(text), pipelines=tuple(pipelines),
                created_at=timestamp_text(now),
                expires_at=None if expires_after is None else timestamp_text(now + expires_after),
            )  # fmt: skip
            self._write((*tokens, stored))
        return stored, text

    def list_all(self) -> tuple[StoredToken, ...]:
        """Return all tokens."""
        with self._lock:
            return self._read()

    def revoke(self, id_or_name: str) -> StoredToken:
        """Delete a token.

        Raises:
            UserError: SERVE_TOKEN_UNKNOWN.
        """
        with self._changing():
            tokens = self._read()
            found = next((each for each in tokens if id_or_name in (each.id, each.name)), None)
            if found is None:
                hint = nearest_hint(id_or_name, [each.name for each in tokens])
                raise UserError("SERVE_TOKEN_UNKNOWN", token=id_or_name, hint=hint)
            self._write(tuple(each for each in tokens if each is not found))
        return found

    def caller(self, text: str) -> Caller | None:
        """Return who has a token; None if it is unknown, revoked or expired."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        with self._lock:
            found = next((each for each in self._read() if each.id == match[1]), None)
        # The comparison takes the same time for each wrong text.
        is_right = hmac.compare_digest(_digest(text), "" if found is None else found.sha256)
        if found is None or not is_right or self._is_expired(found):
            return None
        self._note_use(found)
        return Caller(
            user=found.name, role=found.role, via="token", token=found.id, pipelines=frozenset(found.pipelines)
        )

    def _is_expired(self, token: StoredToken) -> bool:
        return token.expires_at is not None and datetime.fromisoformat(token.expires_at) <= self._clock.now()

    def _note_use(self, token: StoredToken) -> None:
        """Store when a token was used last, at most once a minute."""
        now = self._clock.monotonic()
        with self._lock:
            if now - self._used.get(token.id, -_USE_SECONDS) < _USE_SECONDS:
                return
            self._used[token.id] = now
        used = timestamp_text(self._clock.now())
        with self._changing():
            self._write(
                tuple(replace(each, last_used_at=used) if each.id == token.id else each for each in self._read())
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Keep other threads and processes from changing the file."""
        with self._lock, locked(self._folder):
            yield

    def _read(self) -> tuple[StoredToken, ...]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return ()
        changed = (status.st_ino, status.st_mtime_ns, status.st_size)
        if changed != self._known[0]:
            content = _FORMAT.content(self._path.read_text("utf-8"), str(self._path))
            self._known = (changed, tuple(map(_parsed, content["tokens"])))
        return self._known[1]

    def _write(self, tokens: tuple[StoredToken, ...]) -> None:
        replace_private_file(self._path, _FORMAT.text({"tokens": [asdict(each) for each in tokens]}, indent=1))
        self._known = (_NO_FILE, ())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parsed(found: dict[str, Any]) -> StoredToken:
    return StoredToken(**{**found, "role": Role(found["role"]), "pipelines": tuple(found["pipelines"])})
