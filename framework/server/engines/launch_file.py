"""Where the updates of pipelines run: the `server.yml` beside a spec, or in a folder above it that is served.

Its `launchers` are named; `pipelines` chooses one for each pipeline, and `default` the one of all others. Without a
file, updates run on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml
from framework.run.update.control.identity import UpdateIdentity
from framework.server.engines.launch import DEFAULT_START_SECONDS, Launch, LauncherKind
from framework.server.engines.start_request import StartRequest
from framework.server.engines.templates import Filling, filled, is_bare, places, problem_of
from framework.server.pipelines import PipelineEntry
from framework.server.values import Fault, fault_of

FILE_NAME = "server.yml"
_YAML = YamlFormat(
    node=YamlNode, unreadable="SERVER_FILE_UNREADABLE", invalid="SERVER_FILE_INVALID_YAML", may_be_empty=True,
    at_keys=True,
)  # fmt: skip
_KEYS = ("launchers", "default", "pipelines")
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    LauncherKind.SPARK: ("kind", "master"),
    LauncherKind.COMMAND: ("kind", "command", "start_within_seconds"),
    LauncherKind.KUBERNETES: ("kind", "template", "namespace", "context", "kubectl", "start_within_seconds"),
}
_SHELLS = frozenset({"ssh"})
"""Programs that join their arguments to a text for a shell."""
_LONGEST_START = 7 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherSettings:
    """A launcher of the file.

    Args:
        master: Spark's master, for `spark`.
        command: the template of a command line, for `command`.
        job: the template of a Job, for `kubernetes`; `kubectl` selects the cluster.
    """

    name: str = LauncherKind.LOCAL
    kind: LauncherKind = LauncherKind.LOCAL
    master: str = ""
    command: tuple[str, ...] = ()
    job: Mapping[str, Any] = field(default_factory=dict)
    kubectl: tuple[str, ...] = ()
    start_within_seconds: float = DEFAULT_START_SECONDS

    def plan(self, filling: Filling) -> tuple[tuple[str, ...], Launch]:
        """Return the command line on this machine that starts an engine, and what is kept about it."""
        launch = Launch(kind=self.kind, name=self.name, start_within_seconds=self.start_within_seconds)
        if self.kind is LauncherKind.SPARK:
            return (*filling.argv, f"--master={self.master}"), launch
        if self.kind is LauncherKind.COMMAND:
            return tuple(filled(self.command, filling)), launch
        if self.kind is LauncherKind.LOCAL:
            return filling.argv, launch
        job = filled(_named(self.job), filling)
        launch = Launch(
            kind=self.kind, name=self.name, start_within_seconds=self.start_within_seconds, kubectl=self.kubectl,
            job=job["metadata"]["name"], manifest=json.dumps(job),
        )  # fmt: skip
        return (*self.kubectl, "create", "-f", "-"), launch


LOCAL = LauncherSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFile:
    """The content of the file."""

    file: Path | None = None
    default: LauncherSettings = LOCAL
    pipelines: Mapping[str, LauncherSettings] = field(default_factory=dict)

    def of(self, pipeline: str) -> LauncherSettings:
        """Return the launcher of a pipeline."""
        return self.pipelines.get(pipeline, self.default)


def launch_file(spec_file: Path, folders: Sequence[Path]) -> Path | None:
    """Return the nearest file for a spec below served folders; None if there is none."""
    served = {each.resolve() for each in folders}
    above = spec_file.resolve().parents
    last = max((number for number, folder in enumerate(above) if folder in served), default=0)
    return next((file for folder in above[: last + 1] if (file := folder / FILE_NAME).is_file()), None)


def read_launchers(spec_file: Path, folders: Sequence[Path]) -> LaunchFile:
    """Return the launchers for a spec below served folders.

    Raises:
        UserError: SERVER_FILE_UNREADABLE, SERVER_FILE_INVALID_YAML.
        GraphErrors: every SERVER_FILE_INVALID.
    """
    file = launch_file(spec_file, folders)
    if file is None:
        return LaunchFile()
    document = read_yaml(file, _YAML)
    reader = _Reader(file, document)
    found = reader.read(document.plain())
    if reader.errors:
        raise GraphErrors(reader.errors)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherRow:
    """The launcher of a pipeline, as answers show it: its command and its Job may name what not everybody may see.

    Args:
        kind: its kind; None if the file is wrong.
        file: the file that chooses it; None without one.
        fault: what is wrong with the file.
    """

    pipeline_id: str
    pipeline: str
    name: str | None = None
    kind: str | None = None
    file: str | None = None
    fault: Fault | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return asdict(self)


def launcher_of(entry: PipelineEntry, folders: Sequence[Path]) -> LauncherRow:
    """Return the launcher of the next update of a pipeline."""
    row = LauncherRow(pipeline_id=entry.pipeline_id, pipeline=entry.name)
    try:
        found = _launchers_of(entry, folders)
    except UserError as error:
        return replace(row, file=str(launch_file(entry.spec_file, folders)), fault=fault_of(error))
    chosen = found.of(entry.name)
    return replace(row, name=chosen.name, kind=chosen.kind, file=None if found.file is None else str(found.file))


def planned(
    folders: Sequence[Path], entry: PipelineEntry, request: StartRequest, identity: UpdateIdentity,
    argv: tuple[str, ...],
) -> tuple[tuple[str, ...], Launch]:  # fmt: skip
    """Return how the engine of a request is started; a validation claims no update, so it runs on this machine.

    Raises:
        UserError: SERVE_LAUNCHER_UNKNOWN.
    """
    if request.body.get("validate_only"):
        return argv, Launch()
    chosen = _launchers_of(entry, folders).of(entry.name)
    return chosen.plan(Filling(argv=argv, update_id=identity.update_id, pipeline=entry.name))


def _launchers_of(entry: PipelineEntry, folders: Sequence[Path]) -> LaunchFile:
    """Return the launchers for a pipeline.

    Raises:
        UserError: SERVE_LAUNCHER_UNKNOWN, with every problem of the file in one text, as an answer has it.
    """
    try:
        return read_launchers(entry.spec_file, folders)
    except UserError as error:
        problems = " ".join(_placed(each) for each in getattr(error, "errors", (error,)))
        raise UserError("SERVE_LAUNCHER_UNKNOWN", pipeline=entry.name, problems=problems) from error


def _placed(error: SluiceError) -> str:
    place = "" if error.location is None else f"{error.location.file}:{error.location.line}: "
    return f"{place}{error.what}"


class _Reader:
    """Reads the launchers, and gathers all errors."""

    def __init__(self, file: Path, document: YamlNode) -> None:
        self._file, self._document = file, document
        self.errors: list[SluiceError] = []

    def read(self, values: Mapping[str, Any]) -> LaunchFile:
        self._known(values, _KEYS)
        named = {LauncherKind.LOCAL.value: LOCAL}
        for name, settings in self._mapping(values, "launchers").items():
            found = self._launcher(str(name), settings)
            named[str(name)] = LOCAL if found is None else found
        pipelines = {
            name: self._chosen(launcher, named, "pipelines", name)
            for name, launcher in self._mapping(values, "pipelines").items()
        }
        default = self._chosen(values.get("default", LauncherKind.LOCAL.value), named, "default")
        return LaunchFile(file=self._file, default=default, pipelines=pipelines)

    def _launcher(self, name: str, values: Any) -> LauncherSettings | None:
        place = ("launchers", name)
        if name == LauncherKind.LOCAL or not name.isprintable() or not name.strip():
            self._wrong("a name is one line, and `local` is always this machine.", *place)
        if not isinstance(values, dict) or values.get("kind") not in _SETTINGS:
            self._wrong(f"it is a mapping whose `kind` is one of {', '.join(_SETTINGS)}.", *place)
            return None
        kind = LauncherKind(values["kind"])
        self._known(values, _SETTINGS[kind], *place)
        seconds = values.get("start_within_seconds", DEFAULT_START_SECONDS)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 1 <= seconds <= _LONGEST_START:
            self._wrong("it is not a number of seconds from 1 to a week.", *place, "start_within_seconds")
            seconds = DEFAULT_START_SECONDS
        if kind is LauncherKind.SPARK:
            return LauncherSettings(name=name, kind=kind, master=self._text(values, "master", *place))
        if kind is LauncherKind.COMMAND:
            command = self._command(values, *place)
            return LauncherSettings(name=name, kind=kind, command=command, start_within_seconds=float(seconds))
        return LauncherSettings(
            name=name, kind=kind, job=self._job(values, *place), kubectl=self._kubectl(values, *place),
            start_within_seconds=float(seconds),
        )  # fmt: skip

    def _command(self, values: Mapping[str, Any], *place: str) -> tuple[str, ...]:
        command, where = values.get("command"), (*place, "command")
        if not isinstance(command, list) or not command or not all(isinstance(each, str) and each for each in command):
            self._wrong("`command` is a list of texts: the program and its arguments.", *where)
            return ()
        problem = problem_of(command)
        if problem is not None:
            self._wrong(problem, *where)
        elif PurePath(command[0]).name in _SHELLS and any(is_bare(each) for each in command):
            text = "a shell reads what ssh is given: write one text, such as `exec {{argv}}`, which is then quoted."
            self._wrong(text, *where)
        return tuple(command)

    def _kubectl(self, values: Mapping[str, Any], *place: str) -> tuple[str, ...]:
        program = self._text(values, "kubectl", *place) if "kubectl" in values else "kubectl"
        chosen = [f"--{each}={self._text(values, each, *place)}" for each in ("context", "namespace") if each in values]
        return (program, *chosen)

    def _job(self, values: Mapping[str, Any], *place: str) -> Mapping[str, Any]:
        """Return the template of a Job, with what a Job of one update needs."""
        name, where = self._text(values, "template", *place), (*place, "template")
        if not name:
            return {}
        try:
            job = read_yaml(self._file.parent / name, _YAML).plain()
        except UserError as error:
            self.errors.append(error)
            return {}
        problem = _job_problem(job) or problem_of(job)
        if problem is not None:
            self._wrong(f"{name}: {problem}", *where)
        return dict(job)

    def _chosen(self, name: Any, named: Mapping[str, LauncherSettings], *place: str) -> LauncherSettings:
        if name in named:
            return named[name]
        self._wrong(f"`{name}` is not one of the launchers.{nearest_hint(str(name), tuple(named))}", *place)
        return LOCAL

    def _mapping(self, values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        found = values.get(key) or {}
        if isinstance(found, dict):
            return found
        self._wrong("it is a mapping from names.", key)
        return {}

    def _text(self, values: Mapping[str, Any], key: str, *place: str) -> str:
        text = values.get(key)
        if isinstance(text, str) and text.strip() and text.isprintable():
            return text
        self._wrong(f"`{key}` is one line of text.", *place, *((key,) if key in values else ()))
        return ""

    def _known(self, values: Mapping[str, Any], known: tuple[str, ...], *place: str) -> None:
        for key in values:
            if key not in known:
                self._wrong(f"it is not a setting.{nearest_hint(str(key), known)}", *place, str(key))

    def _wrong(self, problem: str, *place: str) -> None:
        where = self._document.location_of(*place)
        self.errors.append(
            UserError("SERVER_FILE_INVALID", location=where, what=f"`{'.'.join(place)}`", problem=problem)
        )


def _job_problem(job: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a template as a Job of one update; None if nothing is."""
    metadata, spec = job.get("metadata", {}), job.get("spec")
    if job.get("kind") != "Job" or job.get("apiVersion") != "batch/v1":
        return "it is not a Job of batch/v1."
    if not isinstance(metadata, dict) or not isinstance(spec, dict) or not _pod(spec):
        return "a Job has `spec.template.spec`."
    if "namespace" in metadata:
        return "the namespace is a setting of the launcher: `namespace`."
    if "name" in metadata and "update_id" not in places(metadata["name"]):
        return "the name of a Job has `{{update_id}}`, so that no other update has it."
    counts = {"completions": 1, "parallelism": 1, "backoffLimit": 0}
    if any(spec.get(name, once) != once for name, once in counts.items()) or _restarts(spec):
        return "a Job runs one pod, once: the id of an update is used once. Leave out what says otherwise."
    return None


def _named(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of a Job with a name, and with one pod that is not repeated."""
    spec = job["spec"]
    pod = {"restartPolicy": "Never", **spec["template"]["spec"]}
    labels = {"app.kubernetes.io/managed-by": "sluice", **job.get("metadata", {}).get("labels", {})}
    return {
        **job,
        "metadata": {"name": "sluice-{{update_id}}", **job.get("metadata", {}), "labels": labels},
        "spec": {**spec, "backoffLimit": 0, "template": {**spec["template"], "spec": pod}},
    }


def _restarts(spec: Mapping[str, Any]) -> bool:
    return bool(_pod(spec).get("restartPolicy", "Never") != "Never")


def _pod(spec: Mapping[str, Any]) -> Any:
    template = spec.get("template")
    return template.get("spec") if isinstance(template, dict) and isinstance(template.get("spec"), dict) else None
