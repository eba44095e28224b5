"""Log sequence numbers of SQL Server: ten bytes, and their order as a positive number of 63 bits.

An LSN has the number of a virtual log file (32 bits), of a block of 512 bytes in it (32 bits), and of a record in the
block (16 bits). A block has at most 60 KB, and a record at least 24 bytes, so a record number has 12 bits. The order
has 26 bits for the file and 25 for the block: 67 million virtual log files of at most 16 GB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.foundation.errors import SourceError

_TEXT = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{4})")
_LENGTH = 10
_FILE_BITS, _BLOCK_BITS, _RECORD_BITS = 26, 25, 12


@dataclass(frozen=True, slots=True, order=True)
class Lsn:
    """A log sequence number.

    Args:
        value: its ten bytes, which sort as the numbers do.

    Examples:
        >>> Lsn.of_text("00000027:00000ac0:0002").order
        5360130457602
        >>> str(Lsn(bytes.fromhex("00000027000000ac002a")))
        '00000027:000000ac:002a'
    """

    value: bytes

    def __post_init__(self) -> None:
        assert len(self.value) == _LENGTH, "an LSN has ten bytes"

    @classmethod
    def of_text(cls, text: str) -> Lsn:
        """Read a text of `str`.

        Raises:
            ValueError: it is not the text of an LSN.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(text)
        return cls(bytes.fromhex("".join(match.groups())))

    def __str__(self) -> str:
        digits = self.value.hex()
        return f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"

    @property
    def order(self) -> int:
        """The number that sorts as the LSN does; different for different LSNs.

        Raises:
            SourceError: SQLSERVER_LSN_TOO_LARGE.
        """
        file = int.from_bytes(self.value[:4], "big")
        block = int.from_bytes(self.value[4:8], "big")
        record = int.from_bytes(self.value[8:], "big")
        if file >> _FILE_BITS or block >> _BLOCK_BITS or record >> _RECORD_BITS or not file:
            raise SourceError("SQLSERVER_LSN_TOO_LARGE", lsn=self)
        return file << (_BLOCK_BITS + _RECORD_BITS) | block << _RECORD_BITS | record

    @classmethod
    def of_order(cls, order: int) -> Lsn:
        """Return the LSN of an order."""
        block_bits = _BLOCK_BITS + _RECORD_BITS
        parts = (
            (order >> block_bits).to_bytes(4, "big"),
            (order >> _RECORD_BITS & (1 << _BLOCK_BITS) - 1).to_bytes(4, "big"),
            (order & (1 << _RECORD_BITS) - 1).to_bytes(2, "big"),
        )
        return cls(b"".join(parts))
