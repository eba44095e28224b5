"""Codes and sessions of browsers, and the key that signs them."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.server.access.roles import Role
from framework.server.access.sessions import Sessions
from framework.testing.manual_clock import ManualClock


def test_a_code_ends_after_ten_minutes_and_a_session_after_twelve_hours(tmp_path: Path) -> None:
    """A code and a cookie that are found later open nothing."""
    clock = ManualClock()
    sessions = Sessions(tmp_path, clock, "ada")
    late, code = sessions.make_code(), sessions.make_code()
    clock.sleep(599)
    assert sessions.redeem(code)
    cookie = sessions.cookie()
    clock.sleep(1)
    assert not sessions.redeem(late)
    clock.sleep(12 * 3600 - 2)
    found = Sessions(tmp_path, clock, "ada").caller(cookie)
    assert found is not None
    assert ("ada", Role.MANAGE) == (found.user, found.role)
    clock.sleep(1)
    assert sessions.caller(cookie) is None


def test_a_changed_cookie_opens_nothing(tmp_path: Path) -> None:
    """Its content is signed, with a key that only the user can read."""
    sessions = Sessions(tmp_path, ManualClock(), "ada")
    body, _, signature = sessions.cookie().partition(".")
    other = ("0" if signature[0] != "0" else "1") + signature[1:]
    for forged in (f"{body}.", f"{body}.{other}", f"{body}A.{signature}", "", ".", "é.é", f".{signature}"):
        assert sessions.caller(forged) is None, forged
    assert 0o600 == (tmp_path / "session.key").stat().st_mode & 0o777


@pytest.mark.parametrize("left", ["", "00", "no key", "ab" * 31, "zz" * 32, "é" * 64])
def test_a_key_that_is_not_whole_signs_nothing(tmp_path: Path, left: str) -> None:
    """A crash or a full disk leaves an empty file: everybody knows that key, so a whole one takes its place."""
    key = tmp_path / "session.key"
    key.write_text(left)
    key.chmod(0o600)
    content = {"id": "x", "user": "eve", "role": "manage", "until": 2_000_000_000}
    body = urlsafe_b64encode(json.dumps(content).encode()).decode()
    known = b"" if len(left) != 2 else bytes.fromhex(left)
    forged = f"{body}.{hmac.new(known, body.encode(), 'sha256').hexdigest()}"
    sessions = Sessions(tmp_path, ManualClock(), "ada")
    assert sessions.caller(forged) is None
    assert (32, ["session.key"]) == (len(bytes.fromhex(key.read_text())), [each.name for each in tmp_path.iterdir()])
    assert Sessions(tmp_path, ManualClock(), "ada").caller(sessions.cookie()) is not None


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_key_that_others_can_read_or_write_signs_nothing(tmp_path: Path, mode: int) -> None:
    """Another user of the machine may have put it there."""
    key = tmp_path / "session.key"
    key.write_text("ab" * 32)
    key.chmod(mode)
    Sessions(tmp_path, ManualClock(), "ada").cookie()
    assert ("ab" * 32 != key.read_text(), 0o600) == (True, key.stat().st_mode & 0o777)


def test_a_key_behind_a_link_signs_nothing(tmp_path: Path) -> None:
    """The link is replaced; what it leads to stays as it is."""
    (tmp_path / "elsewhere").write_text("ab" * 32)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "session.key").symlink_to(tmp_path / "elsewhere")
    Sessions(tmp_path, ManualClock(), "ada").cookie()
    assert (False, "ab" * 32) == ((tmp_path / "session.key").is_symlink(), (tmp_path / "elsewhere").read_text())


def test_two_servers_that_start_together_have_one_key(tmp_path: Path) -> None:
    """A session of one is a session of the other."""
    with ThreadPoolExecutor(8) as threads:
        made = [Sessions(tmp_path, ManualClock(), "ada") for _ in range(8)]
        cookies = list(threads.map(Sessions.cookie, made))
    assert all(each.caller(cookie) is not None for each in made for cookie in cookies)


def test_an_ended_session_is_forgotten_when_its_cookie_would_have_ended(tmp_path: Path) -> None:
    """The folder does not grow for ever."""
    clock = ManualClock()
    sessions = Sessions(tmp_path, clock, "ada")
    sessions.end(sessions.cookie())
    clock.sleep(12 * 3600 + 1)
    sessions.end(sessions.cookie())
    assert 1 == len(list((tmp_path / "ended").iterdir()))
