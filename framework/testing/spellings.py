"""The three spellings of a pipeline module, to test that they are equivalent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

OURS = "from framework import pipelines as dp"

# Spelling -> its import line, and the name of the imported module.
SPELLINGS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "framework": (OURS, "dp"),
        "pyspark": ("from pyspark import pipelines as dp", "dp"),
        "dlt": ("import dlt", "dlt"),
    }
)


def respell(source: str, spelling: str) -> str:
    r"""Return the source of a module with its import and calls in another spelling; line numbers do not change.

    Args:
        source: a module with the line `from framework import pipelines as dp`.
        spelling: a key of `SPELLINGS`.

    Raises:
        ValueError: the module has no such import line.

    Examples:
        >>> print(respell("from framework import pipelines as dp\n@dp.table\ndef t(): ...", "dlt"))
        import dlt
        @dlt.table
        def t(): ...
    """
    line, name = SPELLINGS[spelling]
    if OURS not in source:
        msg = f"the module does not say `{OURS}`"
        raise ValueError(msg)
    return re.sub(r"\bdp\.", f"{name}.", source.replace(OURS, line))
