"""Commands and make targets on the pages of the documentation exist, with their options."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from framework.cli.main import cli
from tests.support.sources import ROOT

PAGES = ("README.md", "docs", "framework/operations/new_project/templates/README.md.j2")
_INDENTED = re.compile(r"^    (sluice .+?)(?:  .*)?$", re.MULTILINE)
_INLINE = re.compile(r"`(sluice [^`]+)`")


def documented_commands() -> list[tuple[str, str]]:
    """Return (page, command) of each indented line and inline code that begins with `sluice`."""
    paths = [
        path for name in PAGES for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).glob("*.md"))
    ]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    return [
        (page, found[1]) for page, text in texts.items() for rx in (_INDENTED, _INLINE) for found in rx.finditer(text)
    ]


def fault_of(command: str) -> str | None:
    """Return the first subcommand or option of a command line that does not exist."""
    current: click.Command = cli
    # With the settings of the command line: click caches the names of the help option in the command.
    context = click.Context(cli, **cli.context_settings)
    for word in shlex.split(command)[1:]:
        if word.startswith("-"):
            if word not in {"--help", *(option for each in current.params for option in each.opts)}:
                return word
        elif isinstance(current, click.Group):
            found = current.get_command(context, word)
            if found is None:
                return word
            current = found
    return None


def test_every_documented_command_exists() -> None:
    """Each command, subcommand and option on the pages is one of the command line."""
    found = documented_commands()
    assert len(found) > 50
    assert [(page, command) for page, command in found if fault_of(command) is not None] == []


@pytest.mark.parametrize("command", ["sluice ruin", "sluice bundle guards", "sluice run --refreshed x"])
def test_an_unknown_command_is_found(command: str) -> None:
    """The check itself fails for a command that does not exist."""
    assert fault_of(command) is not None


def test_every_documented_make_target_exists() -> None:
    """Each `make` target that the README names is one of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"^    make ([a-z]+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert (named[:1], set(named) - targets) == (["demo"], set())
