"""The fixture that compares a text with its golden file."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

TEXTS = pathlib.Path(__file__).parent / "texts"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with `texts/<name>`; with SLUICE_UPDATE_GOLDEN=1 write it there instead."""

    def compare(name: str, text: str) -> None:
        file = TEXTS / name
        if os.environ.get("SLUICE_UPDATE_GOLDEN") == "1":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        assert file.read_text("utf-8").rstrip("\n") == text.rstrip("\n")

    return compare
