"""Lint of a bundle's target: settings that would restart or lose an ingestion gateway, or couple it to other pipelines.

A gateway with settings that change at each deploy is an error, because no guard can prevent that. Settings that the
guard holds or defers are warnings, because other tools don't hold them, and an existing bundle can be fixed in steps.
The loader itself reports a gateway in development mode and a reference into another target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from framework.deploy.bundle.documents.bundle import Resource
from framework.deploy.bundle.documents.findings import BundleFinding, error, warning
from framework.deploy.bundle.documents.interpolation import REFERENCE
from framework.deploy.bundle.documents.nodes import Node, leaves_in, texts_in
from framework.foundation.locations import SourceLocation
from framework.foundation.secrets.secrecy import hide_all, is_secret_name

_PRINCIPAL = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATA_KINDS = ("schemas", "volumes")
_GIT = "bundle.git."
_NESTED = re.compile(r"\$\{[^{}]*\$\{")
# A date, a timestamp, a timestamp in digits, seconds or milliseconds since 1970; a full commit hash.
_TIME_OR_COMMIT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T _-]\d\d[:_-]?\d\d.*)?|20\d{12}|\d{8}[T_-]\d{4,6}Z?|1\d{9}|1\d{12}|[0-9a-f]{40}"
)


def lint(
    tree: Node, values: Mapping[str, Node], resources: Sequence[Resource], target: str
) -> tuple[BundleFinding, ...]:
    """Return the findings of the lint in a target, ordered by location.

    Args:
        tree: the target's settings before references are resolved.
        values: values of the variables.
        resources: the resources to deploy.
        target: name of the target.
    """
    written = {resource.key: _written(tree, resource) for resource in resources}
    specs = {resource.key: resource.spec.as_dict() for resource in resources}
    found = [*_letter_case(resources, specs, written)]
    gateways = [each for each in resources if "gateway_definition" in specs[each.key]]
    if gateways:
        found += _mixed_targets(gateways, resources, specs, target)
        found += _unprotected(resources, specs)
        volatile = VolatileValues(tree, values)
        for gateway in gateways:
            found += _changing_fields(gateway.key, written[gateway.key], volatile)
            found += _presets(gateway.key, written[gateway.key], tree, volatile)
    return tuple(sorted(found, key=_sort_key))


def check_production(
    whole: Node, target: str, mode: Node | None, resources: Sequence[Resource], user: str | None
) -> tuple[BundleFinding, ...]:
    """Check that a production target has its own root path; without one each user deploys a separate copy.

    The finding is a warning if all jobs have `run_as` or a service principal deploys, as in the Databricks CLI; else
    an error.
    """
    root_path = whole.get("targets", target, "workspace", "root_path")
    if mode is None or mode.value != "production" or root_path is not None:
        return ()
    jobs = [each.spec.as_dict() for each in resources if each.kind == "jobs"]
    is_named = all(job.get("run_as") for job in jobs) or (user is not None and _PRINCIPAL.fullmatch(user) is not None)
    severity = warning if is_named else error
    return (severity("BUNDLE_PRODUCTION_PATH", mode.location, target=target),)


def _mixed_targets(
    gateways: Sequence[Resource], resources: Sequence[Resource], specs: Mapping[str, dict[str, Any]], target: str
) -> Iterator[BundleFinding]:
    """Find gateways in a target that also deploys pipelines of another kind."""
    others = [
        each.key
        for each in resources
        if each.kind == "pipelines" and not {"gateway_definition", "ingestion_definition"} & set(specs[each.key])
    ]
    if others:
        for gateway in gateways:
            other_keys = ", ".join(others)
            yield warning(
                "BUNDLE_GATEWAY_NOT_APART", gateway.location, key=gateway.key, target=target, others=other_keys
            )


def _unprotected(resources: Sequence[Resource], specs: Mapping[str, dict[str, Any]]) -> Iterator[BundleFinding]:
    """Find resources that hold or move ingested data without a `prevent_destroy`; an explicit `false` is accepted."""
    for each in resources:
        spec = specs[each.key]
        holds_data = each.kind in _DATA_KINDS or bool({"gateway_definition", "ingestion_definition"} & set(spec))
        if holds_data and not isinstance((spec.get("lifecycle") or {}).get("prevent_destroy"), bool):
            yield warning("BUNDLE_DESTROY_NOT_PREVENTED", each.location, key=each.key)


def _letter_case(
    resources: Sequence[Resource], specs: Mapping[str, dict[str, Any]], written: Mapping[str, Node | None]
) -> Iterator[BundleFinding]:
    """Find a pipeline's channel, edition or catalog that is not in the service's letter case."""
    for each in resources:
        if each.kind != "pipelines":
            continue
        for field, fold in (("channel", str.upper), ("edition", str.upper), ("catalog", str.lower)):
            value = specs[each.key].get(field)
            if isinstance(value, str) and "${" not in value and value != fold(value):
                node = written[each.key]
                at = None if node is None else node.get(field)
                location = each.location if at is None else at.location
                yield warning("BUNDLE_SPELLING", location, key=each.key, field=field, value=value, expected=fold(value))


def _changing_fields(key: str, written: Node | None, volatile: VolatileValues) -> Iterator[BundleFinding]:
    """Find fields of a gateway that change at each deploy."""
    for path, node in leaves_in(written) if written is not None else ():
        source = volatile.source(node)
        if source is None:
            continue
        name = ".".join(path)
        if path[0] == "tags" or "custom_tags" in path:
            yield warning("BUNDLE_GATEWAY_TAG_CHANGES", node.location, key=key, field=name, source=source)
        else:
            yield error("BUNDLE_GATEWAY_CHANGES", node.location, key=key, field=name, source=source)


def _presets(key: str, written: Node | None, tree: Node, volatile: VolatileValues) -> Iterator[BundleFinding]:
    """Find presets that affect a gateway: tags that it does not set itself, and a changing prefix of its name."""
    presets = tree.get("presets")
    prefix = None if presets is None else presets.get("name_prefix")
    if prefix is not None and (source := volatile.source(prefix)) is not None:
        yield error("BUNDLE_GATEWAY_CHANGES", prefix.location, key=key, field="name", source=source)
    tags = None if presets is None else presets.get("tags")
    own = None if written is None else written.get("tags")
    for tag, node in tags.entries("presets.tags").items() if tags is not None else ():
        pinned = None if own is None else own.get(tag)
        if pinned is not None and pinned.value != "":
            continue
        field, source = f"tags.{tag}", volatile.source(node)
        if source is None:
            yield warning("BUNDLE_GATEWAY_TAG_UNPINNED", node.location, key=key, tag=tag)
        else:
            yield warning("BUNDLE_GATEWAY_TAG_CHANGES", node.location, key=key, field=field, source=source)


def _written(tree: Node, resource: Resource) -> Node | None:
    return tree.get("resources", *resource.key.split(".", 1))


def _sort_key(finding: BundleFinding) -> tuple[str, int, str]:
    location: SourceLocation | None = finding.location
    return ("", 0, finding.condition) if location is None else (location.file, location.line, finding.condition)


class VolatileValues:
    """Follows references from settings to the sources of their values.

    Args:
        tree: the target's settings before references are resolved.
        values: values of the variables.
    """

    def __init__(self, tree: Node, values: Mapping[str, Node]) -> None:
        self._tree = tree
        self._values = values

    def source(self, node: Node) -> str | None:
        """Return the source that changes a value at each deploy, as a text for people; None without such a source."""
        return self._of(node, frozenset())

    def _of(self, node: Node, seen: frozenset[str]) -> str | None:
        return next((found for text in texts_in(node) for found in self._of_text(text, seen)), None)

    def _of_text(self, text: str, seen: frozenset[str]) -> Iterator[str]:
        for match in REFERENCE.finditer(text):
            path = match[1]
            if path.startswith(_GIT):
                yield f"${{{path}}}"
            elif path not in seen and not path.startswith("resources."):
                found = self._followed(path, seen | {path})
                if found is not None:
                    yield found
        if _NESTED.search(text) and (outer := REFERENCE.sub(self._literal, text)) != text:
            yield from self._of_text(outer, seen)

    def _literal(self, match: re.Match[str]) -> str:
        """Return the text of a variable inside a reference, as in `${var.tag_${var.kind}}`."""
        value = self._values.get(match[1].removeprefix("var."))
        return match[0] if value is None or "${" in str(value.value) else str(value.value)

    def _followed(self, path: str, seen: frozenset[str]) -> str | None:
        head, *rest = re.split(r"[.\[]", path)
        if head not in {"var", "variables"} or not rest:
            below = self._tree.get(*path.split("."))
            return None if below is None else self._of(below, seen)
        value = self._values.get(rest[0])
        if value is None:
            return None
        return self._of(value, seen) or self._from_outside(rest[0], value)

    def _from_outside(self, name: str, value: Node) -> str | None:
        """Describe a variable whose value is not its default, and is a time or a commit; else None."""
        written = self._tree.get("variables", name, "default")
        if written is not None and written.value == value.value:
            return None
        if not isinstance(value.value, str) or _TIME_OR_COMMIT.fullmatch(value.value) is None:
            return None
        given = hide_all(value.value) if is_secret_name(name) else value.value
        return f"${{var.{name}}}, which is {given} in this deployment"
