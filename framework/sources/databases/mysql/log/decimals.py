"""Decimals in the log: groups of nine digits in four bytes, from the decimal point outwards."""

from __future__ import annotations

from collections.abc import Callable

_GROUP, _GROUP_BYTES = 9, 4
_GROUP_BITS, _GROUP_MASK, _GROUP_LIMIT = 32, (1 << 32) - 1, 10**9
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


def decimal_reader(precision: int, scale: int) -> Callable[[int], str]:
    """Return the function that makes the text of a decimal from its bytes as a number."""
    size = decimal_size(precision, scale)
    before, after = decimal_groups(precision, scale)
    if len(before) not in (1, 2) or len(after) > 1:
        return lambda packed: decimal_text(packed.to_bytes(size, "big"), precision, scale)
    half, (digits, count) = 1 << 8 * size - 1, after[0] if after else (0, 0)
    shift, mask, is_long = 8 * count, (1 << 8 * count) - 1, len(before) > 1
    form = f"%s%d.%0{digits}d"

    def text(packed: int) -> str:
        sign = ""
        if packed >= half:
            packed -= half
        else:
            sign, packed = "-", half - 1 - packed
        whole = packed >> shift
        if is_long:
            whole = (whole >> _GROUP_BITS) * _GROUP_LIMIT + (whole & _GROUP_MASK)
        return form % (sign, whole, packed & mask) if digits else f"{sign}{whole}"

    return text
