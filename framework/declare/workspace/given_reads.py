"""Reads by path, topic or option in a sandbox: Spark reads the rows that a test has given.

The readers' methods ask here before they read. Outside of a sandbox nothing changes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from framework.declare.inputs import SourceRead, StagedRead
from framework.declare.session.mutations import unguarded
from framework.declare.session.patches import Patch
from framework.declare.workspace.surroundings import found_inputs, reads_of_engine
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_STAGED = "_sluice_staged"
"""The attribute of a reader of given rows, which is not asked again."""


def staged_read(
    spark: SparkSession,
    format: str,
    path: str | None,
    options: Mapping[str, str],
    *,
    schema: StructType | None = None,
    streaming: bool,
) -> StagedRead | None:
    """Return where the given rows of a read are; None outside of a sandbox, and if the real source is read.

    Raises:
        UserError: TEST_INPUT_NOT_GIVEN, TEST_INPUT_AMBIGUOUS, and errors of rows that the format can't hold.
    """
    inputs = found_inputs()
    if inputs is None:
        return None
    lower = {name.lower(): value for name, value in options.items()}
    read = SourceRead(
        format=format.lower(), path=path or lower.get("path"), options=lower, schema=schema, streaming=streaming,
        location=caller_location(),
    )  # fmt: skip
    with unguarded(), reads_of_engine():  # Spark writes some formats
        return inputs.staged(spark, read)


def written_path(path: Any) -> Any:
    """Return where code writes in place of a path: below the folder of its sandbox; the path itself outside of one."""
    inputs = found_inputs()
    return path if inputs is None or not isinstance(path, str) else inputs.written(path)


def delta_table_patches() -> list[Patch]:
    """Return the patches by which the tables of Delta's own API are those of a sandbox, too."""
    # By name: modules that run on Databricks, which has a Delta of its own, import this one.
    owner = importlib.import_module("delta.tables").DeltaTable
    return [Patch(owner, name, _with_given_path) for name in ("forPath", "isDeltaTable")]


def _with_given_path(original: Any) -> Any:
    @functools.wraps(original.__func__)
    def call(cls: Any, spark: SparkSession, path: str, *args: Any, **kwargs: Any) -> Any:
        staged = staged_read(spark, "delta", path, {}, streaming=False)
        return original.__func__(cls, spark, path if staged is None else staged.path, *args, **kwargs)

    return classmethod(call)


def given_reader(
    reader: Any, paths: Sequence[str | None], *, streaming: bool, format: str | None = None
) -> tuple[Any, str | list[str]] | None:
    """Return a reader of the given rows of a reader's source, and what it loads; None if the real source is read.

    Args:
        reader: the reader of the code, with its options and its schema.
        paths: the paths in the code; [None] for none.
        streaming: whether it is a stream.
        format: the format; None for the reader's own.

    Raises:
        UserError: as of `staged_read`.
    """
    if found_inputs() is None or getattr(reader, _STAGED, False):
        return None
    from framework.engine.streams.readers import format_of_reader, options_of_reader, schema_of_reader

    kind, options, schema = format or format_of_reader(reader), options_of_reader(reader), schema_of_reader(reader)
    spark = reader._spark  # noqa: SLF001 - PySpark's readers have no public access to their session
    found = [staged_read(spark, kind, path, options, schema=schema, streaming=streaming) for path in paths]
    staged = next((each for each in found if each is not None), None)
    if staged is None:
        return None
    fresh = spark.readStream if streaming else spark.read
    setattr(fresh, _STAGED, True)
    fresh.format(staged.format or kind)
    if staged.format is None:
        fresh.options(**{key: value for key, value in options.items() if key.lower() not in staged.removed | {"path"}})
    fresh.options(**staged.options)
    if (schema := staged.schema or schema) is not None:
        fresh.schema(schema)
    loaded = [path if each is None else each.path for path, each in zip(paths, found, strict=True)]
    known = [path for path in loaded if path is not None]
    return fresh, known[0] if len(known) == 1 else known


def read_given(
    original: Callable[..., Any], reader: Any, args: tuple[Any, ...], named: Mapping[str, Any]
) -> DataFrame | None:
    """Return the given rows of a call of a reader's method, such as `json`; None if it reads no given source.

    Options and schema of the call are set on the reader, as PySpark does.
    """
    if found_inputs() is None or getattr(reader, _STAGED, False):
        return None
    arguments = dict(inspect.signature(original).bind(reader, *args, **named).arguments)
    arguments.pop("self", None)
    options = arguments.pop("options", {})
    found = next((arguments.pop(key) for key in ("path", "paths") if key in arguments), None)
    if not (found is None or isinstance(found, str | list | tuple)):
        return None  # an RDD, or a DataFrame of texts
    kind = arguments.pop("format", None) or (None if original.__name__ == "load" else original.__name__)
    if (schema := arguments.pop("schema", None)) is not None:
        reader.schema(schema)
    reader.options(**{key: value for key, value in arguments.items() if value is not None}, **options)
    paths = [None] if found is None else [found] if isinstance(found, str) else [*found]
    given = given_reader(reader, paths, streaming="Stream" in type(reader).__name__, format=kind)
    return None if given is None else given[0].load(given[1])


def read_given_table(reader: Any, url: str, table: str) -> DataFrame | None:
    """Return the given rows of a call of a reader's `jdbc`; None if it reads the real database."""
    spark: SparkSession = reader._spark  # noqa: SLF001 - PySpark's readers have no public access to their session
    staged = staged_read(spark, "jdbc", None, {"url": url, "dbtable": table}, streaming=False)
    if staged is None:
        return None
    fresh = spark.read.format(staged.format or "parquet")
    setattr(fresh, _STAGED, True)
    return (fresh if staged.schema is None else fresh.schema(staged.schema)).load(staged.path)
