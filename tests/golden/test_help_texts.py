"""The help of every command in a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from framework.cli.main import cli
from tests.support.commands import every_command


@pytest.mark.parametrize("words", [words for words, _ in every_command()], ids=" ".join)
def test_help_says_what_is_written_here(golden: Callable[[str, str], None], words: tuple[str, ...]) -> None:
    """A change to an option is a change to this file, and to INTERFACE.md."""
    result = CliRunner().invoke(cli, [*words, "--help"], prog_name="sluice", terminal_width=100)
    assert result.exit_code == 0
    golden(f"help/{'_'.join(('sluice', *words))}.txt", result.stdout)
