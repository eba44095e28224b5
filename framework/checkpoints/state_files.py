"""Files of a stream's state that are cut off or are none, as far as their first and last bytes say so.

Spark compresses the changes and snapshots of a state with the codec of the checkpoint, LZ4 unless a setting names
another one. A stream of LZ4 ends with a block without content, so that a file that was cut off is known by its end.
Of other codecs only the beginning is known. What is broken between both, only Spark finds: to find it here, each plan
would read the whole state.
"""

from __future__ import annotations

from framework.foundation.storage_port import Storage

_LZ4 = "LZ4Block"
_ENDS_LZ4 = 21
"""The bytes of the last block: the mark, the codec's method, and three empty numbers."""

_EMPTY_NUMBERS = "\0" * 12
_BEGINS = (_LZ4, "(\ufffd/\ufffd", "\ufffdSNAPPY\0", "ZV")
"""The first bytes of LZ4, Zstandard, Snappy and LZF as text, in which invalid bytes are replaced."""

_BEGINS_ARCHIVE = "PK"
_MOST_BYTES = 1 << 20


def is_state_file_broken(storage: Storage, path: str, size_bytes: int) -> bool:
    """Whether Spark certainly can't read a file of a state; False for a large one, which is not read.

    Args:
        storage: has the file.
        path: a file of changes, or a snapshot.
        size_bytes: its size.
    """
    if not size_bytes or size_bytes > _MOST_BYTES:
        return not size_bytes
    text = storage.read_text(path) or ""
    if path.endswith(".zip"):
        return not text.startswith(_BEGINS_ARCHIVE)
    if not text.startswith(_BEGINS):
        return True
    end = text[-_ENDS_LZ4:]
    return text.startswith(_LZ4) and not (end.startswith(_LZ4) and end.endswith(_EMPTY_NUMBERS))
