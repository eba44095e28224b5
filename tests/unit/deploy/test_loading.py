"""Results of loading a bundle other than settings, which are in the tables of `cases/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.loading import load_bundle
from framework.foundation.errors import UserError

USER = "ada.lovelace@example.com"
HEAD = "bundle: {name: sales}\n"


def load(folder: Path, text: str, *, target: str | None = None, user: str | None = USER, **given: str) -> Bundle:
    """The bundle of one file, with variables given with the call."""
    (folder / "databricks.yml").write_text(HEAD + text, encoding="utf-8")
    return load_bundle(folder, target=target, variables=given, user=user, environment={"BUNDLE_VAR_e": "from env"})


def test_edges_protection_and_places_are_known(tmp_path: Path) -> None:
    """A deploy needs each resource's dependencies, its protection and its source location."""
    text = (
        "resources:\n"
        "  pipelines:\n"
        "    p: {lifecycle: {prevent_destroy: true}}\n"
        "  jobs:\n"
        "    j: {tasks: [{task_key: t, pipeline_task: {pipeline_id: '${resources.pipelines.p.id}'}}]}\n"
    )
    found = {resource.key: resource for resource in load(tmp_path, text).resources}
    assert found["jobs.j"].depends_on == ("pipelines.p",)
    assert [found[key].prevent_destroy for key in ("pipelines.p", "jobs.j")] == [True, False]
    assert str(found["pipelines.p"].location) == "databricks.yml:4:8"


def test_a_protection_that_has_no_value_yet_protects(tmp_path: Path) -> None:
    """It refers to a field of a resource, which has its value at the deploy; false does not protect."""
    text = (
        "resources:\n"
        "  pipelines:\n"
        "    p: {lifecycle: {prevent_destroy: '${resources.pipelines.q.development}'}}\n"
        "    q: {development: true, lifecycle: {prevent_destroy: 'false'}}\n"
        "    r: {lifecycle: {prevent_destroy: }}\n"
    )
    found = {each.key: each.prevent_destroy for each in load(tmp_path, text).resources}
    assert found == {"pipelines.p": True, "pipelines.q": False, "pipelines.r": False}


def test_aliases_cant_blow_a_file_up(tmp_path: Path) -> None:
    """A few lines of aliases of aliases end with an error and not with the machine's memory."""
    lines = ["variables:", "  a0: &a0 {description: x}"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(UserError) as caught:
        load(tmp_path, "\n".join(lines))
    assert caught.value.condition == "BUNDLE_INVALID_YAML"


BOMBS = {
    "texts that double": ("{default: x}", "{default: '${var.v%d}${var.v%d}'}", 60, "BUNDLE_REFERENCE_TOO_LARGE"),
    "lists that double": (
        "{type: complex, default: [x]}", "{type: complex, default: ['${var.v%d}', '${var.v%d}']}", 60,
        "BUNDLE_REFERENCE_TOO_LARGE",
    ),
    "a long chain": ("{default: x}", "{default: '${var.v%d}', description: v%d}", 2000, "BUNDLE_REFERENCE_TOO_DEEP"),
}  # fmt: skip


@pytest.mark.parametrize(("first", "next_one", "count", "condition"), BOMBS.values(), ids=BOMBS)
def test_references_cant_blow_a_bundle_up(
    tmp_path: Path, first: str, next_one: str, count: int, condition: str
) -> None:
    """Variables of variables end with an error too, before they fill the machine's memory or our stack."""
    lines = ["variables:", f"  v0: {first}"]
    lines += [f"  v{number}: {next_one % (number - 1, number - 1)}" for number in range(1, count)]
    lines.append(f"resources: {{jobs: {{j: {{tags: {{t: '${{var.v{count - 1}}}'}}}}}}}}")
    with pytest.raises(UserError) as caught:
        load(tmp_path, "\n".join(lines))
    assert caught.value.condition == condition


def test_this_repositorys_bundle_loads_for_each_target() -> None:
    """`databricks.yml` and `bundles/`, as they are committed."""
    root = Path(__file__).parents[3]
    for target, name in (("dev", "[dev ada_lovelace] flights"), ("prod", "flights")):
        bundle = load_bundle(root, target=target, user=USER)
        assert [(resource.key, resource.name) for resource in bundle.resources] == [
            ("pipelines.flights", name), ("jobs.flights", name),
        ]  # fmt: skip
        glob = bundle.resources[0].spec.as_dict()["libraries"][0]["glob"]["include"]
        assert glob == f"{bundle.file_path}/pipelines/flights/transformations/**"
