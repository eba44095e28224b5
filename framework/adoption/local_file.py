"""The text of `sluice.local.yml`: an entry for each need, to fill in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import yaml

from framework.adoption.needs import Need, NeedKind
from framework.adoption.paths import folder_for

_HEAD = """\
# What this machine has in place of what the code finds in its workspace. `sluice adopt` wrote it: fill in the values.
"""
RUNTIME = """\
# For code of runtimes before 17, which calculate with texts and have NULL where ANSI mode fails:
# runtime: "16.4"
"""
"""The end of a new file: entries that many pipelines need, and that no code shows."""

_COMMENTS = {
    NeedKind.PATH: "Folders are relative to this file.",
    NeedKind.TABLE: "Tables that the code only reads: folders with files, or `pipeline:` with another one's folder.",
    NeedKind.FUNCTION: "Functions of a catalog or a service: the Python function that stands for each, `module.name`.",
    NeedKind.SECRET: "Each secret is read from this variable of the environment.",
    NeedKind.PARAMETER: "Values of `spark.conf.get`, of widgets and of `${…}` in SQL.",
}
_ORDER = (NeedKind.PATH, NeedKind.TABLE, NeedKind.FUNCTION, NeedKind.SECRET, NeedKind.PARAMETER)


def local_file(needs: Iterable[Need], shown: Callable[[Need], str]) -> str:
    """Return the text of the file; empty if it has no entry.

    Args:
        needs: the needs, each once; packages are left out.
        shown: returns the place of a need, for the comment beside its entry.
    """
    found = [need for need in needs if need.kind in _ORDER]
    lines = [_HEAD] if found else []
    for kind in _ORDER:
        entries = sorted((need for need in found if need.kind is kind), key=lambda need: need.name)
        if entries:
            lines.append(f"{kind}:  # {_COMMENTS[kind]}\n")
            lines += _secrets(entries, shown) if kind is NeedKind.SECRET else _entries(entries, shown)
    return "".join(lines)


def suggested(need: Need) -> Any:
    """Return the default value of an entry, to be filled in; None for a package."""
    if need.kind is NeedKind.PATH:
        return folder_for(need.name)
    if need.kind is NeedKind.TABLE:
        return {"format": "csv", "path": f"data/tables/{need.name}/", "header": True, "inferSchema": True}
    if need.kind is NeedKind.FUNCTION:
        return f"stubs.{need.name.rpartition('.')[2]}"
    if need.kind is NeedKind.SECRET:
        return {"env": _variable(need.name)}
    return need.default or "" if need.kind is NeedKind.PARAMETER else None


def without_known(needs: Iterable[Need], known: Mapping[str, Any]) -> tuple[Need, ...]:
    """Return the needs that a file does not have yet.

    Args:
        needs: the needs.
        known: the content of the file.
    """
    return tuple(need for need in needs if not _is_there(need, known.get(need.kind)))


def _is_there(need: Need, section: object) -> bool:
    if not isinstance(section, Mapping):
        return False
    if need.kind is NeedKind.SECRET:
        scope, _, key = need.name.partition("/")
        return isinstance(section.get(scope), Mapping) and key in section[scope]
    if need.kind is NeedKind.PATH:
        return any(need.name.startswith(str(prefix)) for prefix in section)
    return need.name in section


def _entries(needs: Iterable[Need], shown: Callable[[Need], str]) -> Iterator[str]:
    for need in needs:
        yield f"  {_yaml(need.name)}: {_yaml(suggested(need))}  # {shown(need)}\n"


def _secrets(needs: Iterable[Need], shown: Callable[[Need], str]) -> Iterator[str]:
    for scope, group in groupby(needs, lambda need: need.name.partition("/")[0]):
        yield f"  {_yaml(scope)}:\n"
        for need in group:
            yield f"    {_yaml(need.name.partition('/')[2])}: {_yaml(suggested(need))}  # {shown(need)}\n"


def _variable(name: str) -> str:
    text = "".join(character if character.isalnum() and character.isascii() else "_" for character in name)
    return f"SLUICE_SECRET_{text.upper()}"


def _yaml(value: object) -> str:
    """Return a value as YAML on one line; texts that YAML reads as another type are quoted."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("...").strip()
