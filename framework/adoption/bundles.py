"""The specs of the pipelines of bundles, for a machine without the workspace that gives a bundle its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.documents.context import WorkspaceFields
from framework.deploy.bundle.loading import load_bundle
from framework.deploy.bundle.local_spec import local_spec
from framework.foundation.errors import SluiceError, UserError

BUNDLE = "databricks.yml"
"""The file of a bundle, in its root."""

_USER = "somebody@example.com"
"""The user of a bundle that is read and not deployed."""

_WORKSPACE = WorkspaceFields(host="https://workspace.example.com", user_id="0")

_WITHOUT_VALUE = frozenset({"BUNDLE_VARIABLE_WITHOUT_VALUE", "BUNDLE_LOOKUP_OFFLINE"})
_DEVELOPMENT = ("dev", "development", "local")
"""The names of the target that a bundle without a default is read for, if it has one of them."""


def specs_of_bundle(root: Path, environment: Mapping[str, str], faults: list[SluiceError]) -> Iterator[Path]:
    """Write and yield the specs of a bundle's pipelines, as `sluice bundle spec` does.

    A variable that only a workspace gives a value gets its own name as its value, and a target is chosen where the
    bundle has no default; both are among the faults.

    Args:
        root: the folder of the bundle.
        environment: the variables of the process, which may have variables of the bundle.
        faults: gets what was chosen, and what could not be resolved.
    """
    try:
        bundle = _loaded(root, environment, faults)
    except UserError as error:
        faults.append(_below(root, error))
        return
    keys = [each.key for each in bundle.resources if each.kind == "pipelines" and each.spec.as_dict().get("libraries")]
    for key in keys:
        file = None if len(keys) == 1 else f"{key.partition('.')[2]}.pipeline.yml"
        try:
            made = local_spec(bundle, key, file)
        except UserError as error:
            faults.append(_below(root, error))
            continue
        made.path.write_text(made.text, encoding="utf-8")
        yield made.path


def _loaded(root: Path, environment: Mapping[str, str], faults: list[SluiceError]) -> Bundle:
    """Load a bundle; what it lacks is put in its place, one thing in each round.

    Raises:
        UserError: what is lacking cannot be put in its place.
    """
    target, variables = None, dict[str, str]()
    while True:
        try:
            bundle = load_bundle(
                root, target=target, variables=variables, user=_USER, environment=environment, workspace=_WORKSPACE
            )
        except UserError as error:
            name = str(error.fields.get("name"))
            if error.condition == "BUNDLE_TARGET_AMBIGUOUS" and target is None and error.fields["known"] != "none":
                target = _target(str(error.fields["known"]).split(", "))
                chosen = UserError("ADOPTION_TARGET_CHOSEN", location=error.location, target=target)
                faults.append(_below(root, chosen))
            elif error.condition in _WITHOUT_VALUE and name not in variables:
                variables[name] = name
            else:
                raise
        else:
            if variables:
                names = ", ".join(sorted(variables))
                faults.append(UserError("ADOPTION_VARIABLES_NAMED", path=root / BUNDLE, names=names))
            return bundle


def _below(root: Path, error: SluiceError) -> SluiceError:
    """Return an error of a bundle with a path relative to the folder of the command, not of the bundle."""
    where = error.location
    return error if where is None else error.at(replace(where, file=str(root / where.file)))


def _target(names: list[str]) -> str:
    return next((name for name in _DEVELOPMENT if name in names), names[0])
