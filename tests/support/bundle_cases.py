"""Test cases of bundles in YAML files: the bundle, and the expected result of the loader.

Each case has a `name`, and

- `bundle`: the text of `databricks.yml` after its first line, `bundle: {name: sales}`, unless it has its own;
  or `whole`: the complete text. `files` and `links` are created next to it; `git` is the state of the repository.
- `target`, `user`, `var` (passed with the call), `env`, and `known`: the ids by `kind name` in the workspace;
  null means no workspace.
- `expect`: the complete settings by resource key; or `target`, `root_path`, `sync`, `resources` (keys in order),
  `variables` (the value of each) …
- or `value` and `becomes`: a setting without a type, and its resolved value.
- `finds`: with `expect` or alone, all findings, each as severity, condition and location.
- or `error` with `at`, its location (in `databricks.yml` unless it names another file), and `says`, a part of its text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.loading import load_bundle

USER = "ada.lovelace@example.com"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HEAD = "bundle: {name: sales}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCase:
    """One entry of the table; `text` is that of `databricks.yml`."""

    name: str
    text: str
    expect: dict[str, Any] | None = None
    finds: list[str] | None = None
    error: str = ""
    at: str = ""
    says: str = ""
    target: str | None = None
    user: str | None = USER
    var: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    known: dict[str, list[str]] | None = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    git: dict[str, str] | None = None


@cache
def read_bundle_cases(path: Path) -> tuple[BundleCase, ...]:
    """The cases of a file; each worker reads it when it collects the tests, with the parser in C if PyYAML has it."""
    return tuple(_case(row) for row in yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER))  # noqa: S506 - safe


def load_case(case: BundleCase, folder: Path) -> Bundle:
    """Write a case's files into a folder, and load its bundle."""
    _write(folder, {"databricks.yml": case.text, **case.files})
    for name, target in case.links.items():
        (folder / name).symlink_to(target)
    if case.git is not None:
        _check_out(folder / ".git", case.git)
    known = case.known

    def look_up(kind: str, name: str) -> tuple[str, ...]:
        return tuple((known or {}).get(f"{kind} {name}", ()))

    return load_bundle(
        folder,
        target=case.target,
        variables=case.var,
        user=case.user,
        environment=case.env,
        look_up=None if known is None else look_up,
    )


def told(bundle: Bundle) -> dict[str, Any]:
    """Return all values that `expect` may name."""
    configuration = bundle.configuration.as_dict()
    resources = configuration.get("resources") or {}
    fields = ("name", "target", "mode", "root_path", "state_path", "file_path", "artifact_path", "locks")
    return {
        **{name: getattr(bundle, name) for name in fields},
        "sync": list(bundle.sync),
        "resources": [each.key for each in bundle.resources],
        "variables": {name: each.get("value") for name, each in configuration["variables"].items()},
        "configuration": configuration,
        **{f"{kind}.{name}": each for kind, named in resources.items() for name, each in named.items()},
    }


def found(bundle: Bundle) -> list[str]:
    """The findings as `finds` names them."""
    place = "databricks.yml:"
    return [
        f"{each.severity.value} {each.condition} {str(each.location).removeprefix(place)}" for each in bundle.findings
    ]


def _case(row: dict[str, Any]) -> BundleCase:
    row = dict(row)
    if "value" in row:
        setting = json.dumps(row.pop("value"))
        # Settings of a kind that Sluice does not deploy are resolved, and keep the type that they have then.
        row["bundle"] += f"\nresources: {{clusters:  {{p: {{name: p, configuration: {{k: {setting}}}}}}}}}\n"
        if "becomes" in row:
            row["expect"] = {"clusters.p": {"name": "p", "configuration": {"k": row.pop("becomes")}}}
    text = row.pop("whole") if "whole" in row else _with_head(row.pop("bundle"))
    assert ("expect" in row or "finds" in row) != ("error" in row), row["name"]
    if "finds" in row:
        row.setdefault("expect", {})
    return BundleCase(text=text, **row)


def _with_head(text: str) -> str:
    return text if text.startswith("bundle:") else _HEAD + text


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _check_out(git: Path, state: dict[str, str]) -> None:
    """Create the files of a Git repository."""
    branch, commit = state.get("branch"), state["commit"]
    files = {"HEAD": f"ref: refs/heads/{branch}\n" if branch else f"{commit}\n"}
    if branch:
        files[f"refs/heads/{branch}"] = f"{commit}\n"
    url = state.get("origin_url")
    files["config"] = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n' if url else "[core]\n"
    _write(git, files)
