"""Rendering of a template with plain values to YAML, in a sandbox where an undefined name is an error.

A template can read the values of its spec and other templates of its folder: no other files, no clock, no random
numbers, no environment. The output of `{{ }}` must be safe in YAML; `| yaml` makes any value safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, TemplateNotFound, TemplateSyntaxError
from jinja2.loaders import FunctionLoader

from framework.deploy.ingestion.yaml_environment import YamlEnvironment
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_MAX_CHARACTERS = 5_000_000


class TimeLimitExceeded(Exception):  # noqa: N818 - a limit, which the process that renders raises at
    """Rendering takes longer than its limit, in seconds of processor time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it uses more than {seconds:g} seconds of CPU time")


# Exceptions that the code of a template may raise. Jinja writes `1e400` as the name `inf`, and Python's compiler
# refuses more than twenty blocks in each other.
_TEMPLATE_ERRORS = (
    TemplateError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    SyntaxError,
    TimeLimitExceeded,
)


class Templates:
    """The templates of one folder.

    Args:
        folder: folder of the templates; no file outside of it is read, not even through links.
        root: the bundle's root; locations are relative to it.
    """

    def __init__(self, folder: Path, *, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._environment = YamlEnvironment(FunctionLoader(self._load))

    def render(self, name: str, values: Mapping[str, Any], *, location: SourceLocation) -> str:
        """Render a template with values.

        Args:
            name: the template's path in the folder.
            values: values by their names in the template.
            location: location of the template's name in the spec.

        Raises:
            UserError: BUNDLE_TEMPLATE_MISSING; BUNDLE_TEMPLATE_INVALID with the template's line.
        """
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._environment.get_template(name).generate(dict(values)):
                pieces.append(piece)
                length += len(piece)
                if length > _MAX_CHARACTERS:
                    raise _invalid(
                        self._location_of(name, 1), f"its output has more than {_MAX_CHARACTERS:,} characters"
                    )
        except TemplateNotFound as error:
            at = self._template_line(error) or location
            raise UserError("BUNDLE_TEMPLATE_MISSING", location=at, name=error.name, folder=self._named()) from error
        except TemplateSyntaxError as error:
            at = self._location_of(error.name or name, error.lineno)
            raise _invalid(at, error.message or "its syntax is invalid") from error
        except MemoryError as error:
            at = self._template_line(error) or self._location_of(name, 1)
            raise _invalid(at, "it exceeds the memory limit") from error
        except _TEMPLATE_ERRORS as error:
            at = self._template_line(error) or self._location_of(name, 1)
            raise _invalid(at, str(error) or type(error).__name__) from error
        return "".join(pieces)

    def _load(self, name: str) -> tuple[str, str, None] | None:
        path = self._folder / name
        try:
            inside = path.resolve(strict=True).is_relative_to(self._folder.resolve())
            text = path.read_text(encoding="utf-8") if inside and ".." not in Path(name).parts else None
        except (OSError, ValueError):
            return None
        return None if text is None else (text, str(path), None)

    def _named(self) -> str:
        return self._folder.relative_to(self._root).as_posix()

    def _location_of(self, name: str, line: int) -> SourceLocation:
        return SourceLocation(file=f"{self._named()}/{name}", line=line)

    def _template_line(self, error: BaseException) -> SourceLocation | None:
        """Return the innermost line of a template in the traceback of an error; None without one."""
        found, step = None, error.__traceback__
        while step is not None:
            file = Path(step.tb_frame.f_code.co_filename)
            if file.is_relative_to(self._folder):
                found = self._location_of(file.relative_to(self._folder).as_posix(), step.tb_lineno)
            step = step.tb_next
        return found


def _invalid(location: SourceLocation, cause: str) -> UserError:
    return UserError("BUNDLE_TEMPLATE_INVALID", location=location, path=location.file, cause=cause)
