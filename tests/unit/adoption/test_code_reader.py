"""What code needs of its workspace is found in its text; nothing of it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.adoption.code_reader import read_code

MODULE = '''
import dlt
from pyspark.sql import functions as F

SCOPE, env = "shop", spark.conf.get("env", "dev")
BASE = f"/Volumes/{env}/raw/files"


@dlt.table(name="orders")
def made():
    """Reads /mnt/nowhere/ of old."""
    return spark.readStream.format("cloudFiles").load("/mnt/lake/in/" + env)


@dlt.table
def joined():
    day = dbutils.widgets.get("day")
    return spark.sql(f"SELECT ops.tools.mask(name), secret('s', 'k') FROM raw.customers JOIN LIVE.orders USING (id)")


dlt.create_streaming_table("kept")
dlt.apply_changes(target="kept", source="crm.people", keys=["id"], sequence_by="n")
token = dbutils.secrets.get(scope=f"{SCOPE}-a", key="token")
'''


def _needs(code: str, **configuration: str) -> list[tuple[str, str, int]]:
    found = read_code(Path("m.py"), code, configuration)
    return [(str(need.kind), need.name, need.location.line) for need in found.needs]


def test_paths_tables_functions_secrets_and_parameters_are_found_with_their_lines() -> None:
    """Docstrings need nothing, nor do datasets that are read with `LIVE`; f-strings and constants are followed."""
    assert _needs(MODULE) == [
        ("parameters", "env", 5),
        ("paths", "/Volumes/", 6),
        ("paths", "/mnt/lake/", 12),
        ("parameters", "day", 17),
        ("functions", "ops.tools.mask", 18),
        ("secrets", "s/k", 18),
        ("tables", "raw.customers", 18),
        ("tables", "crm.people", 22),
        ("secrets", "shop-a/token", 23),
    ]


def test_settings_of_the_engine_are_no_parameters() -> None:
    """Those that a pipeline names `pipelines.parameters.…` are its own."""
    read = 'spark.conf.get("{}")\n'
    keys = ("spark.sql.shuffle.partitions", "pipelines.id", "pipelines.parameters.scope")
    assert _needs("".join(read.format(key) for key in keys)) == [("parameters", "pipelines.parameters.scope", 3)]


def test_a_parameter_with_a_value_completes_what_depends_on_it() -> None:
    """The spec's configuration is known."""
    assert ("paths", "/Volumes/prod/raw/files/", 6) in _needs(MODULE, env="prod")


def test_names_of_datasets_are_those_of_their_declarations() -> None:
    """A name that is computed is not known; a module that only imports the interface declares nothing."""
    assert read_code(Path("m.py"), MODULE, {}).datasets == {"orders", "joined", "kept"}
    assert not read_code(Path("m.py"), "import dlt\nx = 1", {}).declares
    assert read_code(Path("m.py"), "from pyspark import pipelines as p\n@p.table\ndef a(): ...", {}).declares


@pytest.mark.parametrize(
    ("expression", "prefix"),
    [
        ('"abfss://c@acct.dfs.core.windows.net/in/a"', "abfss://c@acct.dfs.core.windows.net/"),
        ('"s3://lake/a/b.json"', "s3://lake/"),
        ('f"s3://{bucket}/a"', "s3://"),
        ('"dbfs:/FileStore/x"', "dbfs:/"),
        ('os.path.join("/dbfs", name)', "/dbfs/"),
        ('"/mnt/%s/x" % name', "/mnt/"),
        ('"/Volumes/{}/raw".format(name)', "/Volumes/"),
        ('"SELECT * FROM json.`/Volumes/a/b/c/d`"', "/Volumes/a/b/c/"),
    ],
)
def test_a_path_is_known_by_the_prefix_that_all_of_its_place_share(expression: str, prefix: str) -> None:
    """A bucket, a volume, a mount or a root; a part that is computed ends it."""
    assert [need[:2] for need in _needs(f"x = {expression}")] == [("paths", prefix)]


@pytest.mark.parametrize("text", ["/srv/a", "data/in", "http://x/mnt/a", "a b /mnt/x", "gs:no", "file:/a"])
def test_other_texts_are_no_paths_of_a_workspace(text: str) -> None:
    """Folders of this machine need no entry."""
    assert _needs(f"x = {text!r}") == []
