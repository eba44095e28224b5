"""Sessions of browsers: a one-time code becomes a cookie, which is signed and ends after twelve hours."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from pathlib import Path

from framework.foundation.clock import Clock
from framework.foundation.files.private_files import make_private_folder, replace_private_file, write_private_file
from framework.server.access.roles import Caller, Role
from framework.server.access.state import locked

_CODE_SECONDS = 600
SESSION_SECONDS = 12 * 3600
_KEY, _CODES = "session.key", "codes"
_KEY_BYTES = 32


class Sessions:
    """Makes and checks one-time codes and session cookies.

    Codes are files of a folder that only the user can read, so `sluice open` can make one while a server runs.
    The key of the cookies is such a file too: a restart of the server ends no session.

    Args:
        folder: the folder of the server's state.
        clock: decides which codes and sessions have expired.
        user: the user of the sessions, who runs the server.
    """

    def __init__(self, folder: Path, clock: Clock, user: str) -> None:
        self._folder = folder
        self._clock = clock
        self._user = user
        self._key: bytes | None = None

    def make_code(self) -> str:
        """Return a new code, which opens one session within ten minutes."""
        codes = self._folder / _CODES
        make_private_folder(codes)
        code = secrets.token_urlsafe(24)
        write_private_file(codes / _digest(code), str(self._now() + _CODE_SECONDS))
        return code

    def redeem(self, code: str) -> bool:
        """Return whether a code is valid; it is not valid a second time."""
        codes = self._folder / _CODES
        path = codes / _digest(code)
        try:
            expires = int(path.read_text("utf-8"))
            path.unlink()  # of two requests with the same code only one deletes it
        except (OSError, ValueError):
            return False
        self._delete_old(codes)
        return self._now() < expires

    def cookie(self) -> str:
        """Return the value of a new session's cookie."""
        content = {"user": self._user, "role": Role.MANAGE, "until": self._now() + SESSION_SECONDS}
        body = urlsafe_b64encode(json.dumps(content).encode()).decode()
        return f"{body}.{self._signature(body)}"

    def caller(self, cookie: str) -> Caller | None:
        """Return whose session a cookie is; None if it is not ours, or has ended."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(self._signature(body).encode(), signature.encode(errors="replace")):
            return None
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(urlsafe_b64decode(body))
            if self._now() < int(found["until"]):
                return Caller(user=str(found["user"]), role=Role(found["role"]), via="session")
        return None

    def _signature(self, body: str) -> str:
        return hmac.new(self._secret(), body.encode(errors="replace"), hashlib.sha256).hexdigest()

    def _secret(self) -> bytes:
        if self._key is None:
            path = self._folder / _KEY
            with locked(self._folder):  # all servers of this user have one key
                found = _key_in(path)
                if found is None:
                    found = secrets.token_bytes(_KEY_BYTES)
                    replace_private_file(path, found.hex())
            self._key = found
        return self._key

    def _delete_old(self, codes: Path) -> None:
        for path in codes.iterdir():
            with suppress(OSError, ValueError):
                if int(path.read_text("utf-8")) < self._now():
                    path.unlink()

    def _now(self) -> int:
        return int(self._clock.now().timestamp())


def _key_in(path: Path) -> bytes | None:
    """Return the key in a file; None if there is none, or only a part of one, with which anybody could sign.

    Raises:
        OSError: it can't be read, so that nobody knows what is in it.
    """
    try:
        found = bytes.fromhex(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found if len(found) == _KEY_BYTES else None


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()
