"""The key of the sessions of browsers."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.server.access.sessions import Sessions
from framework.testing.manual_clock import ManualClock


@pytest.mark.parametrize("left", ["", "00", "no key", "00" * 31])
def test_a_key_that_was_not_written_to_its_end_signs_nothing(tmp_path: Path, left: str) -> None:
    """Anybody could sign with an empty key; the server makes a new one, which its next process uses, too."""
    (tmp_path / "session.key").write_text(left, "utf-8")
    cookie = Sessions(tmp_path, ManualClock(), "ada").cookie()
    key = bytes.fromhex((tmp_path / "session.key").read_text("utf-8"))
    assert (32, True) == (len(key), key != bytes(32))
    caller = Sessions(tmp_path, ManualClock(), "ada").caller(cookie)
    assert caller is not None
    assert ["session.key"] == [each.name for each in tmp_path.iterdir()]
