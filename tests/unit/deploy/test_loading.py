"""Bundles are loaded as Databricks' format says: includes, targets, variables, references, modes, presets, paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framework.deploy.bundle import Bundle
from framework.deploy.loading import load_bundle
from framework.foundation.errors import UserError

USER = "ada.lovelace@example.com"
HEAD = "bundle: {name: sales}\n"


def load(folder: Path, text: str, *, target: str | None = None, user: str | None = USER, **given: str) -> Bundle:
    """The bundle of one file, with variables given with the call."""
    (folder / "databricks.yml").write_text(HEAD + text, encoding="utf-8")
    return load_bundle(folder, target=target, variables=given, user=user, environment={"BUNDLE_VAR_e": "from env"})


def pipeline(folder: Path, text: str, **options: Any) -> dict[str, Any]:
    """The settings of pipeline `p`."""
    found = {resource.key: resource for resource in load(folder, text, **options).resources}
    return found["pipelines.p"].spec.as_dict()


INTERPOLATED = {
    "a whole reference keeps a number": ("variables: {v: {default: 3}}", "${var.v}", 3),
    "a whole reference keeps a truth": ("variables: {v: {default: true}}", "${var.v}", True),
    "a whole reference keeps a list": ("variables: {v: {type: complex, default: [1, 2]}}", "${var.v}", [1, 2]),
    "a whole reference keeps a mapping": ("variables: {v: {type: complex, default: {a: 1}}}", "${var.v}", {"a": 1}),
    "a spliced number is a text": ("variables: {v: {default: 3}}", "n${var.v}", "n3"),
    "a spliced truth is in lower case": ("variables: {v: {default: true}}", "n${var.v}", "ntrue"),
    "two in one text": ("variables: {v: {default: a}, w: {default: b}}", "${var.v}-${var.w}", "a-b"),
    "a variable in a variable": ("variables: {v: {default: 'x${var.w}'}, w: {default: b}}", "${var.v}", "xb"),
    "below a complex variable": ("variables: {v: {type: complex, default: {a: {b: 7}}}}", "${var.v.a.b}", 7),
    "an item of a complex variable": ("variables: {v: {type: complex, default: [4, 5]}}", "${var.v[1]}", 5),
    "the long spelling of a variable": ("variables: {v: {default: 3}}", "${variables.v.value}", 3),
    "the bundle's name": ("", "${bundle.name}", "sales"),
    "the target": ("", "${bundle.target}", "default"),
    "the user": ("", "${workspace.current_user.userName}", USER),
    "the user's short name": ("", "${workspace.current_user.short_name}", "ada_lovelace"),
    "the root path": ("workspace: {root_path: /a/b}", "${workspace.root_path}", "/a/b"),
    "the files' path": ("workspace: {root_path: /a/b}", "${workspace.file_path}", "/a/b/files"),
    "what is no reference stays": ("", "$x {y} ${}", "$x {y} ${}"),
    "a resource's id waits for the deploy": ("", "${resources.pipelines.p.id}", "${resources.pipelines.p.id}"),
    "the environment over the default": ("variables: {e: {default: d}}", "${var.e}", "from env"),
    "nothing reads dates out of texts": ("variables: {v: {default: 2020-01-01}}", "${var.v}", "2020-01-01"),
    "yes is a text": ("variables: {v: {default: yes}}", "${var.v}", "yes"),
}


@pytest.mark.parametrize(("head", "value", "expected"), INTERPOLATED.values(), ids=INTERPOLATED)
def test_references_are_resolved_with_their_types(tmp_path: Path, head: str, value: str, expected: object) -> None:
    """A reference that is the whole text keeps its type; otherwise it is spliced in."""
    text = f"{head}\nresources: {{pipelines: {{p: {{name: p, configuration: {{k: {json.dumps(value)}}}}}}}}}\n"
    assert pipeline(tmp_path, text)["configuration"]["k"] == expected


def test_a_variables_value_is_the_callers_then_the_environments_then_the_files_then_its_default(
    tmp_path: Path,
) -> None:
    """Each of the four says it where those before it are silent; a target's default wins over the bundle's."""
    text = (
        "variables: {a: {default: d}, e: {default: d}, f: {default: d}, t: {default: d}, d: {default: d}}\n"
        "targets: {prod: {variables: {t: of target, a: of target}}}\n"
        "resources: {pipelines: {p: {configuration: "
        "{a: '${var.a}', e: '${var.e}', f: '${var.f}', t: '${var.t}', d: '${var.d}'}}}}\n"
    )
    overrides = tmp_path / ".databricks" / "bundle" / "prod" / "variable-overrides.json"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(json.dumps({"f": "of file", "e": "of file", "a": "of file"}), encoding="utf-8")
    assert pipeline(tmp_path, text, a="of call")["configuration"] == {
        "a": "of call", "e": "from env", "f": "of file", "t": "of target", "d": "d",
    }  # fmt: skip


MERGED = {
    "mappings merge deep": ("configuration: {a: 1, b: {c: 1}}", "configuration: {b: {d: 2}}", "configuration",
                            {"a": 1, "b": {"c": 1, "d": 2}}),
    "scalars are overwritten": ("catalog: a", "catalog: b", "catalog", "b"),
    "null changes nothing": ("catalog: a", "catalog: null", "catalog", "a"),
    "lists are put together": ("libraries: [{file: {path: a}}]", "libraries: [{file: {path: b}}]", "libraries",
                               [{"file": {"path": "a"}}, {"file": {"path": "b"}}]),
    "clusters are one by their label": ("clusters: [{label: default, num_workers: 1, a: 1}]",
                                        "clusters: [{label: DEFAULT, num_workers: 2}]", "clusters",
                                        [{"label": "DEFAULT", "num_workers": 2, "a": 1}]),
    "a cluster without a label is the default one": ("clusters: [{num_workers: 1}]",
                                                     "clusters: [{label: default, num_workers: 2}]", "clusters",
                                                     [{"label": "default", "num_workers": 2}]),
    "other clusters stay apart": ("clusters: [{label: default}]", "clusters: [{label: maintenance}]", "clusters",
                                  [{"label": "default"}, {"label": "maintenance"}]),
}  # fmt: skip


@pytest.mark.parametrize(("base", "over", "key", "expected"), MERGED.values(), ids=MERGED)
def test_a_target_is_merged_over_the_bundle(tmp_path: Path, base: str, over: str, key: str, expected: object) -> None:
    """Mappings deep, scalars overwritten, lists concatenated and collapsed by key."""
    text = (
        f"resources: {{pipelines: {{p: {{{base}}}}}}}\n"
        f"targets: {{prod: {{resources: {{pipelines: {{p: {{{over}}}}}}}}}}}\n"
    )
    assert pipeline(tmp_path, text)[key] == expected


def test_tasks_of_a_job_are_one_by_their_key(tmp_path: Path) -> None:
    """So that a target can change one task of a job."""
    text = (
        "resources: {jobs: {j: {tasks: [{task_key: a, timeout_seconds: 1, max_retries: 3}, {task_key: b}]}}}\n"
        "targets: {prod: {resources: {jobs: {j: {tasks: [{task_key: a, timeout_seconds: 2}]}}}}}\n"
    )
    (job,) = load(tmp_path, text).resources
    tasks = [{"task_key": "a", "timeout_seconds": 2, "max_retries": 3}, {"task_key": "b"}]
    assert job.spec.as_dict() == {"name": "j", "tasks": tasks}


def test_development_marks_names_tags_schedules_and_pipelines(tmp_path: Path) -> None:
    """Each developer's copies stand beside each other, and nothing runs by itself."""
    text = (
        "targets: {dev: {mode: development}}\n"
        "resources:\n"
        "  pipelines: {p: {name: p, continuous: true, tags: {team: x}}}\n"
        "  jobs: {j: {name: j, schedule: {quartz_cron_expression: '0 0 5 * * ?'}, tasks: []}}\n"
        "  schemas: {s: {name: s, catalog_name: main}}\n"
    )
    specs = {resource.key: resource.spec.as_dict() for resource in load(tmp_path, text).resources}
    tag = {"dev": "ada_lovelace"}
    assert specs == {
        "pipelines.p": {
            "name": "[dev ada_lovelace] p", "continuous": False, "development": True, "tags": {"team": "x", **tag},
        },
        "jobs.j": {
            "name": "[dev ada_lovelace] j", "tags": tag, "max_concurrent_runs": 4, "tasks": [],
            "schedule": {"quartz_cron_expression": "0 0 5 * * ?", "pause_status": "PAUSED"},
        },
        "schemas.s": {"name": "dev_ada_lovelace_s", "catalog_name": "main"},
    }  # fmt: skip


def test_a_preset_fills_only_a_tag_that_is_missing_or_empty(tmp_path: Path) -> None:
    """A static value pins a tag against presets."""
    text = "presets: {tags: {a: preset, b: preset, c: preset}}\nresources: {pipelines: {p: {tags: {a: own, b: ''}}}}\n"
    assert pipeline(tmp_path, text)["tags"] == {"a": "own", "b": "preset", "c": "preset"}


def test_paths_are_those_of_the_workspace_from_the_file_that_says_them(tmp_path: Path) -> None:
    """`../pipelines` in `bundles/x.yml` lies beside `bundles`; what names no file of ours stays."""
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "x.yml").write_text(
        "resources: {pipelines: {p: {root_path: ../pipelines/p, libraries: [{glob: {include: ../pipelines/p/**}}, "
        "{file: {path: /Workspace/other.py}}]}}}\n",
        encoding="utf-8",
    )
    found = pipeline(tmp_path, "include: [bundles/*.yml]\nworkspace: {root_path: /r}\n")
    assert found["root_path"] == "/r/files/pipelines/p"
    paths = [{"glob": {"include": "/r/files/pipelines/p/**"}}, {"file": {"path": "/Workspace/other.py"}}]
    assert found["libraries"] == paths


def test_files_to_upload_are_gits_unless_sync_says_otherwise(tmp_path: Path) -> None:
    """Ignored files stay away, `include` brings them back, `exclude` has the last word, links never go."""
    for name in ("a.py", "b.log", "c.log", "d.py", ".git/config", ".databricks/x.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (tmp_path / "link.py").symlink_to("/etc/hostname")
    found = load(tmp_path, "sync: {include: [b.log], exclude: [d.py]}\n")
    assert found.sync == (".gitignore", "a.py", "b.log", "databricks.yml")


def test_edges_protection_and_places_are_known(tmp_path: Path) -> None:
    """What the deploy goes by: which resource needs which, what must stay, where it was written."""
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


P = "resources: {pipelines: {p: {name: '%s'}}}"
FAULTS = {
    "a key twice": ("sync: {}\nsync: {}", "BUNDLE_INVALID_YAML", 3),
    "broken YAML": ("sync: [", "BUNDLE_INVALID_YAML", 3),
    "a foreign tag": ("sync: !!python/object/apply:os.system ['true']", "BUNDLE_INVALID_YAML", 2),
    "an unknown key": ("resorces: {}", "BUNDLE_UNKNOWN_KEY", 2),
    "an unknown key of a target": ("targets: {prod: {moode: x}}", "BUNDLE_UNKNOWN_KEY", 2),
    "a kind that is not deployed": ("resources: {clusters: {c: {}}}", "BUNDLE_UNKNOWN_KEY", 2),
    "an include of nothing": ("include: [nothing/*.yml]", "BUNDLE_INCLUDE_MATCHES_NOTHING", 2),
    "an unknown mode": ("targets: {prod: {mode: prod}}", "BUNDLE_MODE_UNKNOWN", 2),
    "two targets, none the default": ("targets: {a: {}, b: {}}", "BUNDLE_TARGET_AMBIGUOUS", 1),
    "an undeclared variable": (P % "${var.nope}", "BUNDLE_VARIABLE_UNKNOWN", 2),
    "a variable without a value": ("variables: {v: {}}\n" + P % "${var.v}", "BUNDLE_VARIABLE_WITHOUT_VALUE", 3),
    "a value that is not said to be complex": ("variables: {v: {default: [1]}}", "BUNDLE_VARIABLE_TYPE", 2),
    "a complex value inside a text": (
        "variables: {v: {type: complex, default: [1]}}\n" + P % "a${var.v}", "BUNDLE_REFERENCE_NOT_TEXT", 3,
    ),
    "a lookup without a workspace": ("variables: {v: {lookup: {cluster: c}}}", "BUNDLE_LOOKUP_OFFLINE", 2),
    "a circle": (
        "variables: {v: {default: '${var.w}'}, w: {default: '${var.v}'}}\n" + P % "${var.v}",
        "BUNDLE_REFERENCE_CYCLE", 2,
    ),
    "a reference to nothing": (P % "${bundle.nme}", "BUNDLE_REFERENCE_UNKNOWN", 2),
    "a resource that nobody has": (P % "${resources.jobs.j.id}", "BUNDLE_RESOURCE_UNKNOWN", 2),
    "a list where a mapping belongs": ("resources: []", "BUNDLE_FIELD_TYPE", 2),
    "development in production": (
        "targets: {prod: {mode: production}}\nresources: {pipelines: {p: {development: true}}}",
        "BUNDLE_DEVELOPMENT_IN_PRODUCTION", 3,
    ),
    "a gateway in development": (
        "targets: {dev: {mode: development}}\nresources: {pipelines: {p: {gateway_definition: {connection_name: c}}}}",
        "BUNDLE_GATEWAY_IN_DEVELOPMENT", 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "condition", "line"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_with_its_place(tmp_path: Path, text: str, condition: str, line: int) -> None:
    """Condition, file and line."""
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    assert caught.value.condition == condition
    assert caught.value.location is not None
    assert (caught.value.location.file, caught.value.location.line) == ("databricks.yml", line)


def test_a_resource_of_another_target_is_referred_to_by_name_or_lookup(tmp_path: Path) -> None:
    """A reference would tie this target's deploys to that one's resources."""
    text = (
        "resources: {pipelines: {p: {configuration: {g: '${resources.pipelines.gateway.id}'}}}}\n"
        "targets: {prod: {}, ingestion: {resources: {pipelines: {gateway: {}}}}}\n"
    )
    with pytest.raises(UserError) as caught:
        load(tmp_path, text, target="prod")
    assert caught.value.condition == "BUNDLE_RESOURCE_ELSEWHERE"
    assert len(load(tmp_path, text, target="ingestion").resources) == 2


def test_nobody_signed_in_matters_only_where_a_user_is_named(tmp_path: Path) -> None:
    """Offline a target with a path of its own loads; one below the user's home does not."""
    assert load(tmp_path, "workspace: {root_path: /r}\n", user=None).state_path == "/r/state"
    with pytest.raises(UserError) as caught:
        load(tmp_path, "", user=None)
    assert caught.value.condition == "BUNDLE_USER_UNKNOWN"


def test_aliases_cant_blow_a_file_up(tmp_path: Path) -> None:
    """A few lines of aliases of aliases end with an error and not with the machine's memory."""
    lines = ["variables:", "  a0: &a0 {description: x}"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(UserError) as caught:
        load(tmp_path, "\n".join(lines))
    assert caught.value.condition == "BUNDLE_INVALID_YAML"


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
