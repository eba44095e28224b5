"""Rendered files of a bundle: one for each spec, committed with it and a function of spec and template only.

`bundles/specs/NAME.yml` names its template in `bundles/templates/` and is rendered to `bundles/rendered/NAME.yml`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from framework.deploy.bundle.documents.nodes import BUNDLE_YAML, Node, read_bundle_yaml
from framework.deploy.bundle.documents.paths import leads_outside
from framework.deploy.ingestion.rendering_process import RenderCall, render_in_subprocess
from framework.deploy.ingestion.spec import IngestionSpec, read_ingestion_spec
from framework.foundation.errors import UserError
from framework.foundation.yaml_documents import parse_yaml

SPECS = Path("bundles/specs")
TEMPLATES = Path("bundles/templates")
RENDERED = Path("bundles/rendered")
_MARK = "# Rendered by `sluice bundle render`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFile:
    """A rendered file and its state on disk.

    Args:
        path: path relative to the bundle's root.
        text: rendered text; None for a file without a spec.
        state: `same`, `missing`, `differs` or `left over`.
    """

    path: Path
    text: str | None
    state: str


class Renderer(Protocol):
    """Function that renders templates of a folder, one for each call."""

    def __call__(self, root: Path, folder: Path, calls: Sequence[RenderCall], /) -> tuple[str, ...]:
        """Return the texts in the order of the calls."""
        ...


def rendered_files(root: Path, *, render: Renderer = render_in_subprocess) -> tuple[RenderedFile, ...]:
    """Render all specs of a bundle and compare them with the files on disk; write nothing.

    Args:
        root: the bundle's root.
        render: renders the templates; by default in a separate process with limited resources.

    Raises:
        UserError: the first fault in a spec or template, with file and line; a file at the same path that was not
            rendered.
    """
    _refuse_links(root)
    wanted = dict(_rendered(root, render))
    found = []
    for path in sorted({*wanted, *_existing_files(root)}):
        existing, text = _read(root / path), wanted.get(path)
        if existing is not None and not existing.startswith(_MARK):
            if text is None:
                continue
            raise UserError("BUNDLE_RENDERED_FOREIGN", path=path.as_posix())
        state = "left over" if text is None else "missing" if existing is None else "differs"
        found.append(RenderedFile(path=path, text=text, state="same" if existing == text else state))
    return tuple(found)


def write_rendered(root: Path, files: tuple[RenderedFile, ...]) -> tuple[RenderedFile, ...]:
    """Write each file that is not the same, atomically, and delete those left over; return the changed files.

    Raises:
        UserError: BUNDLE_RENDERED_UNWRITABLE.
    """
    changed = tuple(file for file in files if file.state != "same")
    for file in changed:
        try:
            if file.text is None:
                (root / file.path).unlink()
            else:
                _replace(root / file.path, file.text)
        except OSError as error:
            cause = error.strerror or str(error)
            raise UserError("BUNDLE_RENDERED_UNWRITABLE", path=file.path.as_posix(), cause=cause) from error
    return changed


def _rendered(root: Path, render: Renderer) -> Iterator[tuple[Path, str]]:
    """Return path and text of each spec's rendered file; all are rendered before any is written."""
    specs = _specs(root)
    calls = [
        RenderCall(template=spec.template, values=spec.values(), location=tree.value["template"].location)
        for tree, spec in specs.values()
    ]
    texts = render(root, root / TEMPLATES, calls) if calls else ()
    for (path, (_, spec)), text in zip(specs.items(), texts, strict=True):
        name, output = path.as_posix(), RENDERED / path.name
        whole = f"{_MARK} from {name} and {TEMPLATES.as_posix()}/{spec.template}; do not edit.\n{text.rstrip()}\n"
        _check(whole, spec, name, output)
        yield output, whole


def _specs(root: Path) -> dict[Path, tuple[Node, IngestionSpec]]:
    """Read all specs: path relative to the root -> tree and spec; refuse two specs with the same target."""
    found: dict[Path, tuple[Node, IngestionSpec]] = {}
    owners: dict[str, Path] = {}
    for path in sorted((root / SPECS).glob("*.yml")):
        tree = read_bundle_yaml(path, root=root)
        spec = read_ingestion_spec(tree, path.stem)
        name = path.relative_to(root)
        for target in spec.targets:
            if (other := owners.setdefault(target.name, name)) != name:
                location = tree.value["targets"].value[target.name].location
                raise UserError(
                    "BUNDLE_SPEC_TARGET_TWICE", location=location, target=target.name, other=other.as_posix()
                )
        found[name] = (tree, spec)
    return found


def _check(text: str, spec: IngestionSpec, name: str, output: Path) -> None:
    """Refuse a rendered text that is not valid YAML, before it replaces a valid file."""
    try:
        parse_yaml(text, BUNDLE_YAML, name=output.as_posix())
    except UserError as error:
        raise UserError(
            "BUNDLE_RENDERED_INVALID",
            location=error.location,
            template=spec.template,
            spec=name,
            cause=error.what,
            path=output.as_posix(),
        ) from error


def _refuse_links(root: Path) -> None:
    """Refuse any link in a path that is written, and a link out of the root in a path that is read."""
    for path in (Path("bundles"), RENDERED, *_existing_files(root)):
        if (root / path).is_symlink():
            raise UserError("BUNDLE_RENDERED_OUTSIDE", path=path.as_posix())
    for path in (SPECS, TEMPLATES, *sorted(each.relative_to(root) for each in (root / SPECS).glob("*.yml"))):
        if leads_outside(root / path, root):
            target = (root / path).resolve()
            raise UserError("BUNDLE_LINK_OUTSIDE", location=None, path=path.as_posix(), target=target)


def _existing_files(root: Path) -> Iterator[Path]:
    return (path.relative_to(root) for path in (root / RENDERED).glob("*.yml"))


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not valid UTF-8"
        raise UserError("BUNDLE_FILE_UNREADABLE", path=path, cause=cause) from error


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
