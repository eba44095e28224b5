"""Text in pages and drawings: escaped, without control characters and known secrets."""

from __future__ import annotations

import html

from framework.foundation.secrets.known_secrets import hide_known
from framework.foundation.wording import printable_lines


def escape(text: str) -> str:
    """Return a text for HTML and SVG; known secrets are hidden, and control characters, which XML forbids, are escapes.

    Examples:
        >>> escape("a < b")
        'a &lt; b'
    """
    return html.escape(printable_lines(hide_known(text)))
