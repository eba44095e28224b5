"""`sluice adopt`: write the spec of an existing pipeline, if it has none, and the file of what this machine lacks."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from framework.adoption.bundles import BUNDLE, specs_of_bundle
from framework.adoption.local_file import RUNTIME, local_file, without_known
from framework.adoption.needs import Need, each_once
from framework.adoption.project import (
    Module,
    imported_files,
    namespace_of,
    pipeline_needs,
    read_module,
    root_of_imports,
    sources,
)
from framework.adoption.texts import PLACEHOLDER
from framework.declare.pipeline_spec import SPEC_NAMES, load_spec
from framework.declare.workspace.local_file import LOCAL_NAME, YAML
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.yaml_documents import read_yaml

_ONE_OF_SEVERAL = ".pipeline.yml"
"""The end of the name of a spec that is not alone in its folder."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What was done for the pipelines of one folder.

    Args:
        folder: the folder of the specs.
        specs: their specs.
        written: the files that were written.
        needs: what the code needs and this machine does not have.
        kept: the entries, as YAML, that an existing `sluice.local.yml` lacks; it is not changed. None without one.
        faults: files that could not be read, and a bundle that could not be resolved.
    """

    folder: Path
    specs: tuple[Path, ...]
    written: tuple[Path, ...]
    needs: tuple[Need, ...]
    kept: str | None
    faults: tuple[SluiceError, ...]


def adopt(folder: Path, *, environment: Mapping[str, str]) -> tuple[Adoption, ...]:
    """Write what the pipelines of a folder need to run here, and return it for each folder with a spec.

    Files that exist are not changed.

    Args:
        folder: the folder with specs, a bundle, or modules and notebooks.
        environment: the variables of the process, which may have variables of a bundle.

    Raises:
        UserError: ADOPTION_FOLDER_MISSING, ADOPTION_NOTHING_FOUND, those of an invalid spec, and those of a bundle
            that can't be read and is all that there is.
    """
    if not folder.is_dir():
        raise UserError("ADOPTION_FOLDER_MISSING", path=folder)
    written, faults = list[Path](), list[SluiceError]()
    specs = _specs(folder)
    if not specs:
        specs = written = [*_new_specs(folder, environment, faults)]
    if not specs:
        nothing = UserError("ADOPTION_NOTHING_FOUND", path=folder)
        raise next((each for each in faults if not each.condition.startswith("ADOPTION_")), nothing)
    by_folder: dict[Path, list[Path]] = {}
    for spec in specs:
        by_folder.setdefault(spec.parent, []).append(spec)
    first = next(iter(by_folder))
    return tuple(_adopted(each, found, written, faults if each == first else []) for each, found in by_folder.items())


def _specs(folder: Path) -> list[Path]:
    found = (path for name in (*SPEC_NAMES, f"*{_ONE_OF_SEVERAL}") for path in folder.rglob(name))
    return sorted(path for path in found if not _is_hidden(path.relative_to(folder)) and not _is_of_bundle(path))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _is_of_bundle(path: Path) -> bool:
    """Whether a file with a spec's name is a part of a bundle: its pipelines are below `resources`."""
    try:
        return not {"resources", "targets"}.isdisjoint(read_yaml(path, YAML).value)
    except UserError:  # it is read as a spec, which reports what is wrong with it
        return False


def _new_specs(folder: Path, environment: Mapping[str, str], faults: list[SluiceError]) -> Iterator[Path]:
    """Write and yield the specs of the bundles in and below a folder, and of the modules that are in none of them."""
    bundles = list[Path]()
    for path in sorted(folder.rglob(BUNDLE)):
        if not _is_hidden(path.relative_to(folder)):
            made = [*specs_of_bundle(path.parent, environment, faults)]
            bundles += [path.parent] if made else []
            yield from made
    paths = [path for path in sources(folder) if not any(path.is_relative_to(bundle) for bundle in bundles)]
    modules = without_factories(_readable(paths, faults), folder)
    if twice := declared_twice(modules):
        count = len({path for paths in twice.values() for path in paths})
        names = ", ".join([*twice][:5]) + (", …" if len(twice) > 5 else "")
        faults.append(UserError("ADOPTION_SEVERAL_PIPELINES", count=count, names=names))
    groups = [
        (place, group)
        for place, group in (groups_of(modules, folder) if modules else ())
        if not all(module.reading.is_views_only for module in group)  # nothing would be stored
    ]
    stems = Counter((place.parent, place.stem) for place, _ in groups)
    for place, group in groups:
        yield _spec_of_modules(place, group, place.stem if stems[place.parent, place.stem] == 1 else place.name)


def _spec_of_modules(place: Path, modules: Sequence[Module], name: str) -> Path:
    """Write the spec of a pipeline beside its file, or in its folder, and return its path."""
    folder = place if place.is_dir() else place.parent
    catalog, schema = namespace_of(modules)
    name = folder.resolve().name if place.is_dir() else name
    values: dict[str, Any] = {"name": _NO_NAME.sub("_", name).strip("_") or "pipeline"}
    values.update({key: value for key, value in (("catalog", catalog), ("schema", schema)) if value is not None})
    root = root_of_imports(modules, folder)
    if root != folder:
        values["root_path"] = root.relative_to(folder).as_posix()
    values["libraries"] = [{"file": {"path": module.path.relative_to(folder).as_posix()}} for module in modules]
    path = folder / (SPEC_NAMES[0] if place.is_dir() else f"{values['name']}{_ONE_OF_SEVERAL}")
    path.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def _readable(paths: Iterable[Path], faults: list[SluiceError]) -> Iterator[Module]:
    """Yield the modules; those that can't be read, or would fail, are among the faults."""
    for path in paths:
        try:
            module = read_module(path, {})
        except UserError as error:
            faults.append(error)
            continue
        where = module.reading.not_imported
        if where is not None and not module.reading.declares:
            faults.append(UserError("ADOPTION_INTERFACE_NOT_IMPORTED", location=where, path=path))
        yield module


def _adopted(folder: Path, specs: Sequence[Path], written: Sequence[Path], faults: Sequence[SluiceError]) -> Adoption:
    found, unread = list[Need](), [*faults]
    for path in specs:
        spec = load_spec(path)
        needs, more = pipeline_needs(spec, path.resolve().parent)
        found += needs
        unread += more
    local = folder / LOCAL_NAME
    known = _content(local)
    missing = without_known(each_once(found), known or {})
    text = local_file(missing, lambda need: f"{os.path.relpath(need.location.file, folder)}:{need.location.line}")
    if known is None and text:
        local.write_text(text + RUNTIME, encoding="utf-8")
    new = [local] if known is None and text else []
    return Adoption(
        folder=folder,
        specs=tuple(specs),
        written=(*(path for path in written if path in specs), *new),
        needs=missing,
        kept=None if known is None else text,
        faults=tuple({error.render(): error for error in unread}.values()),
    )


def _content(path: Path) -> dict[str, Any] | None:
    """The content of a `sluice.local.yml`; None if there is none.

    Raises:
        UserError: LOCAL_FILE_UNREADABLE, LOCAL_FILE_INVALID_YAML.
    """
    return read_yaml(path, YAML).plain() if path.is_file() else None


def without_factories(modules: Iterable[Module], folder: Path) -> list[Module]:
    """Return the modules that a spec names: those that declare something when they are loaded.

    These are also those that call the factories of others. A factory that no module imports is kept.

    Args:
        modules: all modules below `folder`.
        folder: their folder.
    """
    modules = [module for module in modules if module.path.name != "__init__.py"]
    factories = {module.path.resolve() for module in modules if module.reading.is_factory}
    imported = {module.path: factories & {*imported_files(module, folder)} for module in modules} if factories else {}
    called = {path for paths in imported.values() for path in paths}
    return [
        module
        for module in modules
        if (
            module.path.resolve() not in called
            if module.reading.is_factory
            else module.reading.declares or imported.get(module.path)
        )
    ]


def groups_of(modules: Sequence[Module], folder: Path) -> Iterator[tuple[Path, Sequence[Module]]]:
    """Yield the modules of each pipeline with the path that it is named after: a folder, or its only file.

    One pipeline declares a dataset once. Modules that declare the same ones are of several pipelines, which are told
    apart by their folders, or else by their files.

    Args:
        modules: modules that declare datasets, all below `folder`.
        folder: their folder.
    """
    if not declared_twice(modules):
        yield folder, modules
        return
    by_folder: dict[Path, list[Module]] = {}
    own = list[Module]()
    for module in modules:
        parts = module.path.relative_to(folder).parts
        if len(parts) == 1:
            own.append(module)
        else:
            by_folder.setdefault(folder / parts[0], []).append(module)
    if declared_twice(own):
        yield from ((module.path, [module]) for module in own)
    elif own:
        yield folder, own
    for below, found in by_folder.items():
        yield from groups_of(found, below)


def declared_twice(modules: Iterable[Module]) -> dict[str, list[Path]]:
    """Return the datasets that more than one module declares, each with these modules' files."""
    named = [
        (name.lower(), module.path)
        for module in modules
        for name in sorted(module.reading.datasets)
        if PLACEHOLDER not in name
    ]
    counted = Counter(name for name, _ in named)
    return {name: [path for other, path in named if other == name] for name in sorted(counted) if counted[name] > 1}
