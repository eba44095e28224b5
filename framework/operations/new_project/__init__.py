"""Creates a pipeline project from templates: all of its files, or none."""

from __future__ import annotations

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from framework.foundation.errors import UserError

LANGUAGES = {"python": ".py", "sql": ".sql"}
"""The languages of declarations, with their file suffixes."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_TEMPLATE = ".j2"
# The files of each language.
_BY_LANGUAGE = {
    "python": ("transformations/shop.py", "tests/test_shop.py"),
    "sql": ("transformations/shop.sql", "tests/shop.unit_tests.yml"),
}
_INGESTION = Path("bundles/templates/ingestion.yml.j2")
# Templates whose file name depends on the project's name, or would be interpreted by other tools.
_RENAMED = {
    "gitignore": ".gitignore",
    "github-tests.yml": ".github/workflows/tests.yml",
    "gitlab-ci.yml": ".gitlab-ci.yml",
    "bundles/pipeline.yml": "bundles/{name}.yml",
}


def create_project(name: str, parent: Path, *, language: str = "python") -> tuple[Path, tuple[Path, ...]]:
    """Write a project to a new folder of `parent`, and return the folder and the paths of its files.

    `language` is the language of its declarations, one of LANGUAGES.

    Raises:
        UserError: PROJECT_NAME_INVALID; PROJECT_ALREADY_EXISTS if a folder or file has this name.
    """
    if not _NAME.fullmatch(name):
        raise UserError("PROJECT_NAME_INVALID", name=name)
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise UserError("PROJECT_ALREADY_EXISTS", path=folder)
    with as_file(files(__package__) / "templates") as templates:
        contents = render(templates, name, language)
    contents[_INGESTION] = _ingestion_template().read_text("utf-8")
    # Written to a temporary folder and renamed at the end, so that the project is either complete or absent.
    unfinished = parent / f".{name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    for path, text in contents.items():
        (unfinished / path).parent.mkdir(parents=True, exist_ok=True)
        (unfinished / path).write_text(text, encoding="utf-8")
    unfinished.rename(folder)
    return folder, tuple(sorted(contents))


def _ingestion_template() -> Path:
    """Return the template of `sluice bundle render`, from the wheel or from the bundle of a checkout."""
    shipped = Path(__file__).parent / _INGESTION.name
    return shipped if shipped.is_file() else Path(__file__).parents[3] / _INGESTION


def render(templates: Path, name: str, language: str) -> dict[Path, str]:
    """Return the contents of a project's files by path."""
    other = {path for each, paths in _BY_LANGUAGE.items() if each != language for path in paths}
    environment = Environment(  # noqa: S701 - YAML, Python and Markdown, no HTML; the name is checked
        loader=FileSystemLoader(templates), undefined=StrictUndefined, keep_trailing_newline=True
    )
    variables = {"name": name, "schema": name.lower().replace("-", "_"), "suffix": LANGUAGES[language]}
    rendered: dict[Path, str] = {}
    for template in sorted(path for path in templates.rglob("*") if path.is_file()):
        inside = template.relative_to(templates).as_posix()
        target = inside.removesuffix(_TEMPLATE)
        if target in other:
            continue
        target = _RENAMED.get(target, target).format(name=name)
        is_template = inside.endswith(_TEMPLATE)
        rendered[Path(target)] = (
            environment.get_template(inside).render(variables) if is_template else template.read_text("utf-8")
        )
    return rendered
