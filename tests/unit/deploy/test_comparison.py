"""Settings compare as the service means them: sets without order, sequences with it, at each depth."""

from __future__ import annotations

from typing import Any

import pytest

from framework.deploy.plan.diff import ChangeClass, compare

Spec = dict[str, Any]


def table(**configuration: Any) -> Spec:
    """A pipeline that ingests two tables, one with this configuration."""
    one = {"table": {"source_table": "orders", "table_configuration": configuration}}
    return {"name": "p", "ingestion_definition": {"objects": [{"table": {"source_table": "x"}}, one]}}


def turned(spec: Spec) -> Spec:
    """A pipeline's ingested objects in the other order."""
    objects = spec["ingestion_definition"]["objects"]
    return spec | {"ingestion_definition": {"objects": objects[::-1]}}


def job(**task: Any) -> Spec:
    """A job of two tasks, one with these settings."""
    return {"name": "j", "tasks": [{"task_key": "a"}, {"task_key": "b", **task}]}


def loop(**task: Any) -> Spec:
    """A job whose one task repeats another with these settings."""
    return job(for_each_task={"inputs": "[1]", "task": {"task_key": "c", **task}})


def watching(*rules: Spec, tables: list[str]) -> Spec:
    """A job with health rules that waits for tables."""
    return {"name": "j", "health": {"rules": list(rules)}, "trigger": {"table_update": {"table_names": tables}}}


NO_ORDER: dict[str, tuple[str, Spec, Spec]] = {
    "columns of an ingested table": (
        "pipelines",
        table(include_columns=["a", "b"], primary_keys=["x", "y"]),
        turned(table(include_columns=["b", "a"], primary_keys=["y", "x"])),
    ),
    "alerts of a notification": (
        "pipelines",
        {"name": "p", "notifications": [{"alerts": ["x", "y"], "email_recipients": ["a", "b"]}]},
        {"name": "p", "notifications": [{"alerts": ["y", "x"], "email_recipients": ["b", "a"]}]},
    ),
    "notifications of a task": (
        "jobs",
        job(
            webhook_notifications={"on_start": [{"id": "1"}, {"id": "2"}]},
            depends_on=[{"task_key": "x"}, {"task_key": "a"}],
        ),
        job(
            webhook_notifications={"on_start": [{"id": "2"}, {"id": "1"}]},
            depends_on=[{"task_key": "a"}, {"task_key": "x"}],
        ),
    ),
    "libraries of a repeated task, and its defaults": (
        "jobs",
        loop(libraries=[{"whl": "a"}, {"whl": "b"}], run_if="ALL_SUCCESS"),
        loop(libraries=[{"whl": "b"}, {"whl": "a"}]),
    ),
    "selected tables": (
        "jobs",
        job(pipeline_task={"pipeline_id": "p", "full_refresh_selection": ["a", "b"]}),
        job(pipeline_task={"pipeline_id": "p", "full_refresh_selection": ["b", "a"]}),
    ),
    "rules and watched tables": (
        "jobs",
        watching({"op": "x"}, {"op": "y"}, tables=["a", "b"]),
        watching({"op": "y"}, {"op": "x"}, tables=["b", "a"]),
    ),
    "recipients of a keyed list's items": (
        "pipelines",
        {"name": "p", "clusters": [{"label": "default", "ssh_public_keys": ["a", "b"]}, {"label": "maintenance"}]},
        {"name": "p", "clusters": [{"label": "maintenance"}, {"label": "default", "ssh_public_keys": ["b", "a"]}]},
    ),
}  # fmt: skip
ORDER: dict[str, tuple[str, Spec, Spec]] = {
    "sequence columns": ("pipelines", table(sequence_by=["a", "b"]), table(sequence_by=["b", "a"])),
    "arguments": (
        "jobs",
        job(spark_python_task={"python_file": "f", "parameters": ["a", "b"]}),
        job(spark_python_task={"python_file": "f", "parameters": ["b", "a"]}),
    ),
    "commands of a repeated task": (
        "jobs", loop(dbt_task={"commands": ["a", "b"]}), loop(dbt_task={"commands": ["b", "a"]}),
    ),
    "init scripts": (
        "pipelines",
        {"name": "p", "clusters": [{"init_scripts": [{"s3": {"region": "a"}}, {"s3": {"region": "b"}}]}]},
        {"name": "p", "clusters": [{"init_scripts": [{"s3": {"region": "b"}}, {"s3": {"region": "a"}}]}]},
    ),
    "another number of items": ("pipelines", table(include_columns=["a"]), table(include_columns=["a", "a"])),
}  # fmt: skip


def classes(kind: str, one: Spec, other: Spec) -> ChangeClass:
    """The class of a change from one to the other, that the bundle makes."""
    return compare(kind, wanted=other, deployed=one, remote=one, remote_at_deploy=one).change_class


@pytest.mark.parametrize(("kind", "one", "other"), NO_ORDER.values(), ids=NO_ORDER)
def test_the_order_of_a_set_is_no_difference(kind: str, one: Spec, other: Spec) -> None:
    """The same holds for a list whose items have keys, at any depth."""
    assert classes(kind, one, other) is ChangeClass.NONE
    assert classes(kind, other, one) is ChangeClass.NONE


@pytest.mark.parametrize(("kind", "one", "other"), ORDER.values(), ids=ORDER)
def test_the_order_of_a_sequence_is_a_difference(kind: str, one: Spec, other: Spec) -> None:
    """This holds at any depth."""
    assert classes(kind, one, other) is ChangeClass.SEMANTIC


def test_a_changed_item_of_a_set_is_told_as_json() -> None:
    """The plan prints the lists as JSON, in one order."""
    (change,) = compare(
        "jobs",
        wanted={"name": "j", "email_notifications": {"on_start": ["c", "b"]}},
        deployed={"name": "j", "email_notifications": {"on_start": ["a", "b"]}},
        remote={"name": "j", "email_notifications": {"on_start": ["b", "a"]}},
        remote_at_deploy={"name": "j", "email_notifications": {"on_start": ["b", "a"]}},
    ).changes
    assert (change.path, change.remote, change.wanted, change.change_class) == (
        ("email_notifications", "on_start"), '["a", "b"]', '["b", "c"]', ChangeClass.METADATA,
    )  # fmt: skip
