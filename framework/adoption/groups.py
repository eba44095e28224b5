"""The pipelines that the modules of a folder without a spec belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from framework.adoption.project import Module
from framework.adoption.texts import PLACEHOLDER


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
