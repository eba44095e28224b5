"""Checks of names in a bundle file: unknown keys, and keys of resources.

An unknown key that resembles a known one is an error, because the Databricks CLI only warns and ignores the setting.
Any other unknown key is a warning, as in the CLI.
"""

from __future__ import annotations

from framework.deploy.bundle.checks.field_checks import FieldChecks
from framework.deploy.bundle.checks.format import KINDS, UNDEPLOYED_KINDS, BundleFile, MergedBundle
from framework.deploy.bundle.documents.findings import BundleFinding, warning
from framework.deploy.bundle.documents.nodes import Node
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

TOP_KEYS = frozenset(BundleFile.__optional_keys__)
"""The top-level keys of a bundle file."""


def check_names(tree: Node) -> tuple[BundleFinding, ...]:
    """Check the keys of all sections and targets; the fields of resources are checked once a target is resolved.

    Returns:
        A warning for each unknown key.

    Raises:
        UserError: BUNDLE_UNKNOWN_KEY with the nearest known key; BUNDLE_FIELD_TYPE; BUNDLE_RESOURCE_KEY;
            BUNDLE_RESOURCE_EMPTY.
    """
    found: list[BundleFinding] = []

    def report(condition: str, location: SourceLocation, **fields: object) -> None:
        # Values are checked again once references are resolved.
        if condition == "BUNDLE_FIELD_CHOICE":
            found.append(warning(condition, location, **fields))
        elif condition == "BUNDLE_FIELD_TYPE" and fields["expected"] in ("a mapping", "a list"):
            raise UserError(condition, location=location, **fields)

    def unknown(path: str, key: str, value: Node, known: frozenset[str]) -> None:
        refuse_near(key, known, path or "a bundle", value.location)
        found.append(warning("BUNDLE_UNKNOWN_KEY", value.location, key=key, where=path or "a bundle", hint=""))

    FieldChecks(report, unknown).convert(tree, BundleFile, "")
    targets = tree.get("targets")
    for part in (tree, *(targets.entries("targets").values() if targets is not None else ())):
        resources = part.get("resources")
        for kind, named in resources.entries("resources").items() if resources is not None else ():
            if kind not in KINDS | UNDEPLOYED_KINDS:
                unknown("resources", kind, named, KINDS | UNDEPLOYED_KINDS)
            _check_keys(kind, named)
    return tuple(found)


def refuse_near(key: str, known: frozenset[str], where: str, location: SourceLocation) -> None:
    """Refuse an unknown key that resembles a known one.

    Raises:
        UserError: BUNDLE_UNKNOWN_KEY.
    """
    hint = nearest_hint(key, known)
    if hint:
        raise UserError("BUNDLE_UNKNOWN_KEY", location=location, key=key, where=where, hint=hint)


def check_defined(tree: Node) -> None:
    """Refuse resources without any settings, after the target is merged.

    Raises:
        UserError: BUNDLE_RESOURCE_EMPTY.
    """
    resources = tree.get("resources")
    for kind, named in resources.entries("resources").items() if resources is not None else ():
        for name, settings in named.entries(f"resources.{kind}").items():
            if settings.value is None:
                raise UserError("BUNDLE_RESOURCE_EMPTY", location=settings.location, key=f"{kind}.{name}")


def convert_sections(tree: Node) -> Node:
    """Convert each scalar in the sections of a resolved target to the type of its key; resources stay unchanged.

    Raises:
        UserError: BUNDLE_FIELD_TYPE.
    """

    def report(condition: str, location: SourceLocation, **fields: object) -> None:
        if condition == "BUNDLE_FIELD_TYPE":
            raise UserError(condition, location=location, **fields)

    return FieldChecks(report).convert(tree, MergedBundle, "")


def _check_keys(kind: str, named: Node) -> None:
    for name, settings in named.entries(f"resources.{kind}").items():
        if "${" in name:
            raise UserError("BUNDLE_RESOURCE_KEY", location=settings.location, key=f"{kind}.{name}")
