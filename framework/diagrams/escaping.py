"""Text in pages and drawings: escaped, without the secrets that this process knows."""

from __future__ import annotations

import html

from framework.foundation.known_secrets import hide_known


def escape(text: str) -> str:
    """Return a text for HTML and SVG; known secrets are hidden.

    Examples:
        >>> escape("a < b")
        'a &lt; b'
    """
    return html.escape(hide_known(text))
