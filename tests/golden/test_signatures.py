"""The arguments of the public interface of pipeline modules, as `help` and an editor show them."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from framework import pipelines as dp


def test_every_argument_is_a_parameter_of_its_own(golden: Callable[[str, str], None]) -> None:
    """Also those that several functions share, in one declaration: none hides behind `**arguments`."""
    lines = []
    for name in sorted(dp.__all__):
        lines.append(name)
        lines += [f"    {each}" for each in inspect.signature(getattr(dp, name)).parameters.values()]
    golden("signatures.txt", "\n".join(lines))
