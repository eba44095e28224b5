"""Help is quick and complete."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from framework.cli.main import cli

NAMES = list(cli.commands_by_name)


@pytest.mark.parametrize("name", NAMES)
def test_the_list_of_commands_has_the_summary_of_each_command(name: str) -> None:
    """The summary in `sluice --help` is the first sentence of the command's own help."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert (command.help or "").splitlines()[0] == cli.commands_by_name[name].summary


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["demo", "--help"], ["--version"]])
def test_help_imports_neither_spark_nor_rich(arguments: list[str]) -> None:
    """Help does not import Spark or Rich."""
    code = (
        "import sys; from framework.cli.main import cli; cli(sys.argv[1:], standalone_mode=False); "
        "heavy = {'pyspark', 'pandas', 'rich', 'jinja2', 'yaml', 'delta', 'py4j'} & set(sys.modules); "
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_m_framework_is_sluice() -> None:
    """The command line works without a console script; help is a result."""
    done = subprocess.run([sys.executable, "-m", "framework", "--help"], check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: sluice [OPTIONS] COMMAND [ARGS]...")
    assert done.stderr == ""


def test_invalid_usage_leaves_standard_output_empty() -> None:
    """The process ends with 2 and without a result."""
    done = subprocess.run([sys.executable, "-m", "framework", "nonsense"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
