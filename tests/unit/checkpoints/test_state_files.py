"""Files of a state that are cut off or are none are known by their first and last bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.checkpoints.truncation import is_state_file_broken
from framework.foundation.files.storage import LocalStorage

_END = b"LZ4Block\x15" + bytes(12)
_LZ4 = b"LZ4Block\x25\x1c\0\0\0\x2c\0\0\0\x77\xa7\x9d\x0f" + b"\xf0\xff\x00\xe2" * 7 + _END
_ZSTD = b"\x28\xb5\x2f\xfd\x00\x48\x20\x00\x00\xff\xff\xff\xff\x01\x00\x00"


@pytest.mark.parametrize(
    ("name", "content", "is_broken"),
    [
        ("2.delta", _LZ4, False),
        ("2.snapshot", b"LZ4Block\x15\x04" + _END, False),
        ("2.delta", _LZ4[:-1], True),
        ("2.delta", _LZ4[: len(_LZ4) // 2], True),
        ("2.changelog", _LZ4[:-21], True),
        ("2.delta", _LZ4 + b"\0", True),
        ("2.delta", b"v9" + _LZ4[2:], True),
        ("2.delta", b"\x00\x9fgarb{age", True),
        ("2.delta", b"", True),
        ("2.delta", _ZSTD, False),
        ("2.delta", _ZSTD[:9], False),
        ("2.delta", b"\x82SNAPPY\0\0\0\0\1", False),
        ("2.delta", b"ZV\x01\x00\x04", False),
        ("2.zip", b"PK\x03\x04\x14", False),
        ("2.zip", b"garbage", True),
        ("2.delta", b"garbage" * (1 << 18), False),
    ],
)
def test_a_file_that_spark_cannot_read_is_known_by_its_ends(
    tmp_path: Path,
    name: str,
    content: bytes,
    is_broken: bool,  # noqa: FBT001 - a parameter
) -> None:
    """LZ4 that is cut off, and what begins as no codec; large files and the ends of other codecs are unknown."""
    (tmp_path / name).write_bytes(content)
    assert is_state_file_broken(LocalStorage(str(tmp_path)), str(tmp_path / name), len(content)) is is_broken
