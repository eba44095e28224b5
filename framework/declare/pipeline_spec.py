"""The pipeline spec: `pipeline.yml`, or Spark's own `spark-pipeline.yml`, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from framework.declare.databricks_settings import spark_settings
from framework.declare.runtimes import runtime_settings
from framework.declare.specs import Pairs
from framework.declare.workspace.local_file import KEYS as LOCAL_KEYS
from framework.declare.workspace.local_file import NO_WORKSPACE, Workspace, read_local_file
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.files.storage import is_local
from framework.foundation.names import is_one_name
from framework.foundation.nearest import nearest_hint
from framework.foundation.quartz import QuartzSchedule, parse_quartz
from framework.foundation.secrets.known_secrets import remember_settings
from framework.foundation.time_zones import known_zone
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml

_OF_BUNDLE = (
    " `databricks.yml` is a bundle, which `sluice bundle` deploys; to run a pipeline of it here, write its "
    "pipeline.yml with `sluice bundle spec`."
)
SPEC_NAMES = ("pipeline.yml", "pipeline.yaml", "spark-pipeline.yml", "spark-pipeline.yaml")
DEFAULT_CATALOG = "main"
DEFAULT_SCHEMA = "default"

_TEXTS = ("name", "storage", "catalog", "schema", "database", "target", "root_path")
_MAPS = ("configuration", "spark_conf")
_FLAGS = ("continuous", "development")
# Fields of Databricks' pipeline resource that have no effect outside Databricks.
_TOLERATED = (
    "allow_duplicate_names",
    "budget_policy_id",
    "channel",
    "clusters",
    "edition",
    "environment",
    "event_log",
    "id",
    "notifications",
    "photon",
    "restart_window",
    "run_as",
    "serverless",
    "tags",
)
_TRIGGER_SHAPE = "It is neither `manual: {}` nor `cron` with `quartz_cron_schedule` and, if wanted, `timezone_id`."
_YAML = YamlFormat(
    node=YamlNode,
    unreadable="PIPELINE_SPEC_FILE_DOES_NOT_EXIST",
    invalid="PIPELINE_SPEC_INVALID_YAML",
    at_keys=True,
)
_KNOWN = (*_TEXTS, *_MAPS, *_FLAGS, "libraries", "trigger", *LOCAL_KEYS, *_TOLERATED)
DEFAULT_ZONE = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A pattern of files (`folder/**` or one file), relative to the spec's folder."""

    pattern: str
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTrigger:
    """The times at which a server runs the pipeline: a Quartz expression in a time zone."""

    schedule: QuartzSchedule
    timezone_id: str = DEFAULT_ZONE


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """The configuration of a pipeline.

    Args:
        root: the folder that libraries are relative to; None for a pipeline made in Python.
        root_path: the folder that modules import from, relative to `root`; None for `root` alone.
        storage: absolute path or URI; for a pipeline made in Python, it may be relative to the working folder.
        workspace: the local replacements for a Databricks workspace.
        trigger: when a server runs it; None for updates by hand.
    """

    name: str
    storage: str
    catalog: str = DEFAULT_CATALOG
    schema: str = DEFAULT_SCHEMA
    configuration: Pairs = ()
    spark_conf: Pairs = ()
    libraries: tuple[Library, ...] = ()
    continuous: bool = False
    development: bool = False
    root: str | None = None
    root_path: str | None = None
    file: str | None = None
    workspace: Workspace = NO_WORKSPACE
    trigger: CronTrigger | None = None

    def __post_init__(self) -> None:
        """Refuse a catalog or schema that is not a valid name, because table folders are named after them.

        Registers the secrets in the settings, so that all texts of the process hide them. Leaves out settings whose
        value Databricks' runtime would choose.

        Raises:
            UserError: INVALID_NAME.
        """
        remember_settings((*self.configuration, *self.spark_conf, ("", self.storage)))
        for text in (self.catalog, self.schema):
            if not is_one_name(text):
                raise UserError("INVALID_NAME", name=text)
        object.__setattr__(self, "configuration", spark_settings(self.configuration))
        object.__setattr__(self, "spark_conf", spark_settings(self.spark_conf))

    def with_parameters(self, parameters: Mapping[str, str]) -> PipelineSpec:
        """Return the spec with some entries of its configuration replaced or added."""
        return replace(self, configuration=tuple({**dict(self.configuration), **parameters}.items()))


def find_spec(folder: Path) -> Path:
    """Return the path of the spec in a folder or its nearest parent.

    Raises:
        UserError: PIPELINE_SPEC_FILE_NOT_FOUND.
    """
    start = folder.resolve()
    folders = (start, *start.parents)
    for parent in folders:
        for name in SPEC_NAMES:
            if (parent / name).is_file():
                return parent / name
    is_bundle = any((parent / "databricks.yml").is_file() for parent in folders)
    raise UserError(
        "PIPELINE_SPEC_FILE_NOT_FOUND",
        folder=start,
        names=" or ".join(SPEC_NAMES[::2]),
        hint=_OF_BUNDLE if is_bundle else "",
    )


def load_spec(path: Path, local: Path | None = None) -> PipelineSpec:
    """Load the spec from a file, together with the local file of this machine.

    Args:
        path: the spec.
        local: the local file; None for `sluice.local.yml` beside the spec, if it exists.

    Raises:
        UserError: a file is missing or is not valid YAML.
        GraphErrors: every unknown key (with the nearest known key) and every invalid value.
    """
    document = read_yaml(path, _YAML)
    values: dict[str, Any] = document.plain()
    errors = [*_unknown_keys(document), *_wrong_types(document, values), *_refused(document, values)]
    if "name" not in values:
        errors.append(
            UserError("PIPELINE_SPEC_MISSING_REQUIRED_FIELD", location=document.location, path=path, field="name")
        )
    errors += _lost_storage(document, values)
    workspace, trigger = NO_WORKSPACE, None
    try:
        trigger = _trigger(document)
    except UserError as error:
        errors.append(error)
    try:
        workspace = read_local_file(path, local, document)
    except GraphErrors as error:
        errors += error.errors
    if errors:
        raise GraphErrors(errors)
    root = path.resolve().parent
    return PipelineSpec(
        name=values["name"],
        storage=_storage(root, values),
        catalog=values.get("catalog", DEFAULT_CATALOG),
        schema=values.get("schema") or values.get("database") or values.get("target") or DEFAULT_SCHEMA,
        configuration=tuple({**dict(_pairs(values.get("configuration"))), **dict(workspace.parameters)}.items()),
        spark_conf=_spark_conf(workspace, values),
        libraries=_libraries(document, values),
        continuous=values.get("continuous", False),
        development=values.get("development", False),
        root=str(root),
        root_path=values.get("root_path"),
        file=str(path),
        workspace=workspace,
        trigger=trigger,
    )


def default_storage(name: str) -> str:
    """Return the storage folder of a pipeline without a `storage` setting: its own folder below `.sluice`.

    Raises:
        UserError: INVALID_PIPELINE_NAME if the name resolves to another folder, such as the project's.
    """
    if any(not part.strip() or set(part) <= {"."} for part in name.split("/")) or not name.isprintable():
        raise UserError("INVALID_PIPELINE_NAME", name=name)
    return f".sluice/{name}"


def _storage(root: Path, values: Mapping[str, Any]) -> str:
    """Return the storage of the pipeline; a local path is relative to the spec's folder, not to the working folder."""
    storage = str(values.get("storage") or default_storage(values["name"]))
    if not is_local(storage):
        return storage
    if storage.startswith("file:"):
        storage = "/" + storage.removeprefix("file:").lstrip("/")
    return str(root / storage)


def _unknown_keys(document: YamlNode) -> list[SluiceError]:
    errors: list[SluiceError] = []
    for key in document.value:
        if key not in _KNOWN:
            hint, where = nearest_hint(key, _KNOWN), document.location_of(key)
            errors.append(UserError("PIPELINE_SPEC_UNEXPECTED_FIELD", location=where, field=key, hint=hint))
    return errors


def _lost_storage(document: YamlNode, values: Mapping[str, Any]) -> list[SluiceError]:
    """Return the error of a name that is not a valid folder, if the storage is named after it."""
    name = values.get("name")
    if not isinstance(name, str) or not name or not name.isprintable() or values.get("storage"):
        return []
    try:
        default_storage(name)
    except UserError as error:
        return [UserError(error.condition, location=document.location_of("name"), **error.fields)]
    return []


def _refused(document: YamlNode, values: Mapping[str, Any]) -> list[SluiceError]:
    """Return the errors of conflicting schema settings, because all but one would be ignored."""
    errors: list[SluiceError] = []
    schemas = [key for key in ("schema", "database", "target") if values.get(key)]
    if len({values[key] for key in schemas if isinstance(values[key], str)}) > 1:
        where = document.location_of(schemas[1])
        errors.append(UserError("PIPELINE_SPEC_SCHEMA_TWICE", location=where, first=schemas[0], second=schemas[1]))
    return errors


def _wrong_types(document: YamlNode, values: Mapping[str, Any]) -> list[SluiceError]:
    errors: list[SluiceError] = []

    def check(*keys: str | int, value: object, kind: type | tuple[type, ...], expected: str) -> None:
        if not isinstance(value, kind):
            where = document.location_of(*keys)
            name = ".".join(str(key) for key in keys)
            errors.append(
                UserError(
                    "PIPELINE_SPEC_FIELD_TYPE",
                    location=where,
                    field=name,
                    expected=expected,
                    actual=type(value).__name__,
                )
            )

    for key, value in values.items():
        if key in _TEXTS:
            check(key, value=value or None, kind=str, expected="a non-empty string")
            if isinstance(value, str) and value and not _is_plain(key, value):
                errors.append(UserError("INVALID_NAME", location=document.location_of(key), name=value))
        elif key in _FLAGS:
            check(key, value=value, kind=bool, expected="a boolean")
        elif key == "libraries":
            check(key, value=[] if value is None else value, kind=list, expected="a list")
        elif key in _MAPS:
            check(key, value={} if value is None else value, kind=dict, expected="a mapping")
            for inner, each in value.items() if isinstance(value, dict) else ():
                check(key, inner, value=each, kind=(str, int, float), expected="a string")
    return errors


def _is_plain(key: str, value: str) -> bool:
    """Whether a text can be a part of a path; catalogs and schemas must be one-part names."""
    if not value.isprintable():
        return False
    return key in {"name", "storage", "root_path"} or is_one_name(value)


def _pairs(values: Mapping[str, Any] | None) -> Pairs:
    return tuple((str(key), _text(value)) for key, value in (values or {}).items())


def _text(value: object) -> str:
    """Return a scalar as Spark's text: `true` for YAML's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _spark_conf(workspace: Workspace, values: Mapping[str, Any]) -> Pairs:
    """Return the settings of Spark: the runtime's settings, overridden by the user's own."""
    of_runtime = () if workspace.runtime is None else runtime_settings(workspace.runtime)
    return tuple({**dict(of_runtime), **dict(_pairs(values.get("spark_conf")))}.items())


def _libraries(document: YamlNode, values: Mapping[str, Any]) -> tuple[Library, ...]:
    found, errors = [], []
    for index, entry in enumerate(values.get("libraries") or []):
        pattern = _pattern(entry)
        where = document.location_of("libraries", index)
        if pattern is None:
            errors.append(UserError("PIPELINE_SPEC_LIBRARY", location=where, entry=entry))
        else:
            found.append(Library(pattern=pattern, line=where.line))
    if errors:
        raise GraphErrors(errors)
    return tuple(found)


def _trigger(document: YamlNode) -> CronTrigger | None:
    """Return the trigger `cron: {quartz_cron_schedule: ..., timezone_id: ...}`; None for `manual: {}`, or without one.

    Raises:
        UserError: PIPELINE_SPEC_TRIGGER.
    """
    trigger: Any = document.plain().get("trigger")
    manual: tuple[Any, ...] = (None, {"manual": None}, {"manual": {}})
    cron = trigger.get("cron") if isinstance(trigger, dict) and set(trigger) == {"cron"} else None
    if trigger in manual:
        return None
    if not isinstance(cron, dict) or not {"quartz_cron_schedule"} <= set(cron) <= {
        "quartz_cron_schedule",
        "timezone_id",
    }:
        raise UserError("PIPELINE_SPEC_TRIGGER", location=document.location_of("trigger"), problem=_TRIGGER_SHAPE)
    try:
        zone = str(cron.get("timezone_id") or DEFAULT_ZONE)
        return CronTrigger(schedule=parse_quartz(str(cron["quartz_cron_schedule"])), timezone_id=known_zone(zone))
    except ValueError as error:
        where = document.location_of("trigger", "cron")
        raise UserError("PIPELINE_SPEC_TRIGGER", location=where, problem=str(error)) from error


def _pattern(entry: object) -> str | None:
    """Return the pattern in `glob: {include: …}`, `file: {path: …}` or `notebook: {path: …}`; None for other values."""
    if not isinstance(entry, dict) or len(entry) != 1:
        return None
    (kind, value), key = next(iter(entry.items())), {"glob": "include", "file": "path", "notebook": "path"}
    if kind not in key or not isinstance(value, dict) or set(value) != {key[kind]}:
        return None
    pattern = value[key[kind]]
    return pattern if isinstance(pattern, str) and pattern.isprintable() and pattern else None
