"""Seeds of property tests: fresh ones, and those of earlier failures."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom

KEPT = Path(__file__).parents[1] / "properties" / "kept_seeds.txt"
"""One example a line: the kind and the seed, and after `#` what it found."""


def fresh_seed() -> int:
    """A seed that no run had before."""
    return SystemRandom().randrange(2**32)


def kept_seeds(kinds: Collection[str]) -> list[tuple[str, int]]:
    """Return the examples of earlier failures, of some kinds."""
    lines = (line.partition("#")[0].split() for line in KEPT.read_text(encoding="utf-8").splitlines())
    return [(kind, int(seed)) for kind, seed in filter(None, lines) if kind in kinds]


@contextmanager
def repeatable(module: str, kind: str, seed: int, drawn: str) -> Iterator[None]:
    """On a failure, print how to reproduce it and how to keep its seed."""
    try:
        yield
    except BaseException as error:
        path = Path(module).relative_to(KEPT.parents[2])
        error.add_note(
            f"Types and values:\n{drawn}\n"
            f"To see it again, and to keep it: add the line `{kind} {seed}` to {KEPT.relative_to(KEPT.parents[2])}, "
            f"and run `python -m pytest {path} -k {kind}-{seed}`."
        )
        raise
