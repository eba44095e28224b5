"""Decimals in the log: groups of nine digits in four bytes, from the decimal point outwards."""

from __future__ import annotations

from collections.abc import Callable

_GROUP, _GROUP_BYTES = 9, 4
_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The bytes of so many digits."""


def decimal_size(precision: int, scale: int) -> int:
    """Return the bytes of a decimal."""
    whole = precision - scale
    return sum(count // _GROUP * _GROUP_BYTES + _BYTES[count % _GROUP] for count in (whole, scale))


def decimal_groups(precision: int, scale: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the groups before and after the point, each with its digits and its bytes."""
    whole = precision - scale
    before = [(_GROUP, _GROUP_BYTES)] * (whole // _GROUP)
    if whole % _GROUP:
        before.insert(0, (whole % _GROUP, _BYTES[whole % _GROUP]))
    after = [(_GROUP, _GROUP_BYTES)] * (scale // _GROUP)
    if scale % _GROUP:
        after.append((scale % _GROUP, _BYTES[scale % _GROUP]))
    return before, after


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """Return the text of a decimal, as the server prints it.

    Examples:
        >>> decimal_text(bytes.fromhex("80000102"), 8, 2)[-2:]
        '02'
    """
    size = decimal_size(precision, scale)
    number = int.from_bytes(data[:size], "big")
    half = 1 << 8 * size - 1
    sign, number = ("", number - half) if number >= half else ("-", half - 1 - number)
    before, after = decimal_groups(precision, scale)
    shift, texts = 8 * size, []
    for digits, count in (*before, *after):
        shift -= 8 * count
        texts.append(f"{number >> shift & (1 << 8 * count) - 1:0{digits}d}")
    whole = "".join(texts[: len(before)]).lstrip("0") or "0"
    return f"{sign}{whole}" + (f".{''.join(texts[len(before) :])}" if after else "")


def small_decimal(size: int, after: tuple[int, int]) -> Callable[[int], str]:
    """Return the function for a decimal with at most nine digits on each side of the point."""
    half, shift, (digits, _) = 1 << 8 * size - 1, 8 * after[1], after
    mask = (1 << shift) - 1
    if not digits:
        return lambda packed: str(packed - half) if packed >= half else str(packed - half + 1)
    form = f"%d.%0{digits}d"

    def text(packed: int) -> str:
        if packed >= half:
            packed -= half
            return form % (packed >> shift, packed & mask)
        packed = half - 1 - packed
        return "-" + form % (packed >> shift, packed & mask)

    return text
