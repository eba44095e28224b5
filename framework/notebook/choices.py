"""The arguments of `%sluice` and `%%sluice`; read without IPython."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import NoReturn

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What `%sluice` chooses.

    Args:
        spec: the file of a pipeline that the cells of the notebook extend; None without one.
        name: the pipeline's name.
        storage: its storage; None for the default.
        catalog: the catalog of names without one.
        schema: the schema of names without one.
        parameters: entries of the configuration.
        remove: the name of a cell to remove; None to choose a pipeline.
    """

    spec: str | None = None
    name: str = "notebook"
    storage: str | None = None
    catalog: str = "main"
    schema: str = "default"
    parameters: tuple[tuple[str, str], ...] = ()
    remove: str | None = None


class _Parser(argparse.ArgumentParser):
    def words(self, line: str) -> list[str]:
        """Return the arguments of a line.

        Raises:
            UserError: MAGIC_INVALID.
        """
        try:
            return shlex.split(line)
        except ValueError as error:
            self.error(str(error))

    def error(self, message: str) -> NoReturn:
        """Raise a fault of the arguments.

        Raises:
            UserError: MAGIC_INVALID.
        """
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        raise UserError("MAGIC_INVALID", location=caller_location(), problem=message, usage=usage)


def read_choices(line: str) -> Choices:
    """Return what the arguments of `%sluice` choose.

    Raises:
        UserError: MAGIC_INVALID, PARAMETER_INVALID.
    """
    parser = _Parser("%sluice", add_help=False)
    parser.add_argument("spec", nargs="?", metavar="pipeline.yml")
    for option, default in (("name", "notebook"), ("storage", None), ("catalog", "main"), ("schema", "default")):
        parser.add_argument(f"--{option}", default=default)
    parser.add_argument("--param", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--remove", metavar="CELL")
    given = vars(parser.parse_args(parser.words(line)))
    return Choices(parameters=tuple(_parameter(text) for text in given.pop("param")), **given)


def read_cell_name(line: str) -> str | None:
    """Return the name that `%%sluice` gives to its cell; None without one.

    Raises:
        UserError: MAGIC_INVALID.
    """
    parser = _Parser("%%sluice", add_help=False)
    parser.add_argument("name", nargs="?")
    name: str | None = parser.parse_args(parser.words(line)).name
    return name


def _parameter(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UserError("PARAMETER_INVALID", text=text)
    return key, value
