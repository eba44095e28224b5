"""Values of a pipeline's `configuration`, checked."""

from __future__ import annotations

from collections.abc import Mapping

from framework.foundation.errors import UserError


def whole_number(configuration: Mapping[str, str], key: str, *, default: int, least: int) -> int:
    """A whole number of the configuration, the default when it is not set.

    Raises:
        UserError: INVALID_CONFIGURATION when it is none, or below `least`.
    """
    text = configuration.get(key, str(default)).strip()
    if not text.isdecimal() or int(text) < least:
        raise UserError("INVALID_CONFIGURATION", key=key, value=text, expected=f"a whole number from {least}")
    return int(text)
