"""Checks of references between a target's resources, `${resources.KIND.NAME.FIELD}`, before a deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from framework.deploy.bundle.checks.format import UNDEPLOYED_KINDS
from framework.deploy.bundle.checks.references import MISSING, Reference, field_value, references_in
from framework.deploy.bundle.documents.bundle import Resource
from framework.deploy.bundle.documents.nodes import Node, kind_of, leaves_in
from framework.deploy.bundle.targets import other_targets_with
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

# Sections that are read before any resource is deployed: a reference to a resource has no value there.
_RESOLVED_EARLIER = ("bundle", "workspace", "sync", "artifacts")


def check_edges(whole: Node, tree: Node, target: str, resources: Sequence[Resource]) -> None:
    """Check that a deploy can resolve all references between resources.

    Args:
        whole: the bundle with all targets.
        tree: the target's settings, with all references resolved except those to resources.
        target: name of the target.
        resources: the resources to deploy.

    Raises:
        UserError: BUNDLE_RESOURCE_ELSEWHERE, BUNDLE_RESOURCE_UNKNOWN, BUNDLE_RESOURCE_FIELD_UNKNOWN,
            BUNDLE_REFERENCE_NOT_TEXT, BUNDLE_REFERENCE_CYCLE, BUNDLE_RESOURCE_REFERENCE_MISPLACED.
    """
    _refuse_misplaced(tree)
    specs = {resource.key: resource.spec.as_dict() for resource in resources}
    for resource in resources:
        for reference in references_in(specs[resource.key]):
            if reference.key.partition(".")[0] in UNDEPLOYED_KINDS:
                # A resource of such a kind is reported at its declaration.
                continue
            location = _location(tree, resource, reference.text)
            if reference.key not in specs:
                others = other_targets_with(whole, target, reference.key)
                raise _unknown(resource.key, reference, target=target, others=others, known=specs, location=location)
            _check_field(resource.key, reference, specs[reference.key], location)
    _refuse_cycles(tree, resources, specs)


def _refuse_misplaced(tree: Node) -> None:
    for section in _RESOLVED_EARLIER:
        node = tree.get(section)
        for path, leaf in leaves_in(node, (section,)) if node is not None else ():
            reference = next(references_in(leaf.value), None)
            if reference is not None:
                field = ".".join(path)
                raise UserError(
                    "BUNDLE_RESOURCE_REFERENCE_MISPLACED", location=leaf.location, field=field, reference=reference.text
                )


def _unknown(
    key: str,
    reference: Reference,
    *,
    target: str,
    others: Sequence[str],
    known: Mapping[str, Any],
    location: SourceLocation | None,
) -> UserError:
    text = reference.text
    if others:
        return UserError(
            "BUNDLE_RESOURCE_ELSEWHERE",
            location=location,
            key=key,
            reference=text,
            target=target,
            others=", ".join(others),
        )
    hint = nearest_hint(reference.key, known)
    return UserError("BUNDLE_RESOURCE_UNKNOWN", location=location, key=key, reference=text, hint=hint)


def _check_field(key: str, reference: Reference, spec: Mapping[str, Any], location: SourceLocation | None) -> None:
    """Refuse a field that the resource does not have, and a mapping or list inside a text."""
    if reference.path == ("id",):
        return
    found = field_value(reference.key, spec, reference.path)
    if found is MISSING:
        known = sorted({"id", *(field for field, value in spec.items() if value is not None)})
        raise UserError(
            "BUNDLE_RESOURCE_FIELD_UNKNOWN",
            location=location,
            key=key,
            reference=reference.text,
            other=reference.key,
            field=reference.field,
            hint=nearest_hint(reference.field, known),
            known=", ".join(known),
        )
    if isinstance(found, dict | list) and not reference.is_whole:
        actual = kind_of(tuple(found) if isinstance(found, list) else found)
        raise UserError("BUNDLE_REFERENCE_NOT_TEXT", location=location, reference=reference.text, actual=actual)


def _refuse_cycles(tree: Node, resources: Sequence[Resource], specs: Mapping[str, Any]) -> None:
    try:
        TopologicalSorter({resource.key: resource.depends_on for resource in resources}).prepare()
    except CycleError as error:
        # Each key is a dependency of the next one; the first and the last are the same.
        keys = list(reversed(error.args[1]))[:-1]
        begin = keys.index(min(keys))
        keys = keys[begin:] + keys[:begin]
        first = next(resource for resource in resources if resource.key == keys[0])
        after = keys[1] if len(keys) > 1 else keys[0]
        text = next(each.text for each in references_in(specs[keys[0]]) if each.key == after)
        path = " -> ".join([*keys, keys[0]])
        raise UserError("BUNDLE_REFERENCE_CYCLE", location=_location(tree, first, text), path=path) from None


def _location(tree: Node, resource: Resource, text: str) -> SourceLocation | None:
    """Return the location of a text in a resource's settings; the resource's own if a preset or permission added it."""
    node = tree.get("resources", *resource.key.split(".", 1))
    for _, leaf in leaves_in(node) if node is not None else ():
        if isinstance(leaf.value, str) and text in leaf.value:
            return leaf.location
    return resource.location
