"""Factories: modules whose functions declare datasets for their callers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from framework.adoption.project import Module, imported_files


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
