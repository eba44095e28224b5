"""Hook of the site: reference pages that are made from the code, so that nobody has to keep them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from framework.cli.main import cli
from framework.foundation import conditions

INTERFACE = """# Interface

What pipeline modules import as `dp`, and the object that programs and notebooks use.

## Modules

::: framework.pipelines
    options: {heading_level: 3, show_root_heading: false, show_root_toc_entry: false}

## Programs

::: framework.pipeline.Pipeline
    options: {heading_level: 3}

::: framework.running_update.RunningUpdate
    options: {heading_level: 3}
"""

TESTING = """# Testing

What tests get as the fixture `pipeline`, and notebooks by `Pipeline.sandbox()`; docs/testing.md introduces it.

::: framework.sandbox.sandbox.Sandbox

## Conformance

Conformance suites and harnesses for your own sources, dialects and storages. A suite is a class: a test module
subclasses it and says how to build what it tests.

::: framework.testing.source_conformance

::: framework.testing.dialect_conformance

::: framework.testing.dialect_copies

::: framework.testing.storage_conformance

::: framework.testing.crashes

::: framework.testing.manual_clock
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference pages."""
    pages = {
        "interface": INTERFACE,
        "testing": TESTING,
        "conditions": "\n".join(_conditions()),
        "commands": "\n\n".join(_commands(cli, "sluice")),
    }
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def _conditions() -> Iterator[str]:
    """The page of all conditions, by the room that raises them."""
    yield "# Conditions\n"
    yield "Each error begins with its condition in brackets. The names in braces are filled in.\n"
    for room in sorted(vars(conditions)):
        entries = getattr(getattr(conditions, room), "CONDITIONS", None)
        if entries is None or not room.islower():
            continue
        yield f"## {room.replace('_', ' ').capitalize()}\n"
        for name, entry in sorted(entries.items()):
            yield f"### {name}\n\n{_plain(entry.what)}\n\n{_plain(entry.remedy)}\n"


def _plain(text: str) -> str:
    """Escape a text of the catalogue for Markdown; code in backticks stays."""
    fields = re.sub(r"(?<!\{)\{(\w+)[^{}]*\}", r"{\1}", text)
    parts = re.split(r"(`[^`]*`)", fields.replace("{{", "{").replace("}}", "}"))
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]\\])", r"\\\1", part) for part in parts)


def _commands(command: click.Command, name: str, level: int = 1) -> Iterator[str]:
    """The section of a command, with those of its subcommands."""
    context = click.Context(command, info_name=name, **command.context_settings)
    yield f"{'#' * level} {name if level > 1 else 'Command line'}"
    yield f"```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _commands(found, f"{name} {child}", level + 1)
