"""`sluice adopt` writes what a pipeline of somebody else needs to run here, and changes nothing of theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from framework.declare.pipeline_spec import load_spec

Sluice = Callable[..., Result]

NOTEBOOK = """\
# Databricks notebook source
# MAGIC %pip install nobodys-package==2

# COMMAND ----------

import dlt
from helpers.sizes import SIZE
import nobodys_module

# COMMAND ----------

@dlt.table
def orders():
    token = dbutils.secrets.get("shop", "token")
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("/Volumes/main/raw/in/orders")
"""
SQL = """\
CREATE OR REFRESH MATERIALIZED VIEW totals AS
SELECT o.*, tools.f.mask(name) FROM prod.sales.orders o JOIN samples.taxi.trips USING (id) WHERE day = '${day}';
"""
ENTRIES = {
    "paths": {"/Volumes/main/raw/in/": "data/main/raw/in/"},
    "tables": {
        "samples.taxi.trips": {
            "format": "csv",
            "path": "data/tables/samples.taxi.trips/",
            "header": True,
            "inferSchema": True,
        }
    },
    "functions": {"tools.f.mask": "stubs.mask"},
    "secrets": {"shop": {"token": {"env": "SLUICE_SECRET_SHOP_TOKEN"}}},
    "parameters": {"day": ""},
}


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A stranger's folder without a spec: two files of a pipeline, a module that they import, and others."""
    files = {
        "app/transformations/bronze.py": NOTEBOOK,
        "app/transformations/gold.sql": SQL,
        "app/helpers/sizes.py": "SIZE = 3\n",
        "app/models/other.sql": "SELECT 1;\n",
        "tests/test_it.py": "import dlt\n\n@dlt.table\ndef not_ours(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / "strange" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "strange" / name).write_text(text, "utf-8")
    return tmp_path / "strange"


def test_a_folder_without_a_spec_gets_one_and_the_entries_to_fill_in(sluice: Sluice, project: Path) -> None:
    """The catalog and schema are those by which the code names its own datasets; no file of theirs is changed."""
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    result = sluice("adopt", str(project))
    assert (result.exit_code, result.stderr) == (0, "")
    assert yaml.safe_load((project / "pipeline.yml").read_text("utf-8")) == {
        "name": "strange",
        "catalog": "prod",
        "schema": "sales",
        "root_path": "app",
        "libraries": [
            {"file": {"path": "app/transformations/bronze.py"}},
            {"file": {"path": "app/transformations/gold.sql"}},
        ],
    }
    local = (project / "sluice.local.yml").read_text("utf-8")
    assert yaml.safe_load(local) == ENTRIES
    assert local.endswith('\n# runtime: "16.4"\n')
    assert "lacks: nobodys-package==2 nobodys_module" in result.stdout
    assert {path: path.read_bytes() for path in before} == before
    spec = load_spec(project / "pipeline.yml")
    assert (spec.workspace.parameters, spec.workspace.functions) == ((("day", ""),), (("tools.f.mask", "stubs.mask"),))


def test_files_that_exist_stay_and_the_missing_entries_are_printed(sluice: Sluice, project: Path) -> None:
    """A second call has nothing to say; after a new need it prints the entry."""
    sluice("adopt", str(project))
    spec, local = project / "pipeline.yml", project / "sluice.local.yml"
    before = spec.read_bytes(), local.read_bytes()
    assert "Add these entries" not in sluice("adopt", str(project)).stdout
    module = project / "app/transformations/bronze.py"
    module.write_text(NOTEBOOK.replace('("shop", "token")', '("shop", "other")'), "utf-8")
    printed = sluice("adopt", str(project)).stdout
    assert "Add these entries" in printed
    assert "other: {env: SLUICE_SECRET_SHOP_OTHER}  # app/transformations/bronze.py:14" in printed
    assert (spec.read_bytes(), local.read_bytes()) == before


def test_the_spec_of_a_bundles_pipeline_is_made_of_the_bundle(sluice: Sluice, theirs: Path) -> None:
    """Its values are parameters; a file of the bundle that is named as a spec is not taken for one."""
    (theirs / "resources").mkdir()
    (theirs / "databricks.yml").write_text(
        "bundle: {name: b}\ninclude: [resources/*.yml]\ntargets: {dev: {default: true}}\n", "utf-8"
    )
    resource = "resources: {pipelines: {etl: {name: etl, catalog: c, configuration: {env: dev}, libraries: [%s]}}}\n"
    (theirs / "resources" / "pipeline.yml").write_text(resource % "{file: {path: ../m.py}}", "utf-8")
    code = (
        'import dlt\n@dlt.table\ndef a(): return spark.read.json("s3://" + spark.conf.get("env") + spark.conf.get("x"))'
    )
    (theirs / "m.py").write_text(code, "utf-8")
    assert sluice("adopt", str(theirs)).exit_code == 0
    spec = load_spec(theirs / "pipeline.yml")
    assert (spec.catalog, [each.pattern for each in spec.libraries]) == ("c", ["m.py"])
    assert yaml.safe_load((theirs / "sluice.local.yml").read_text("utf-8")) == {
        "paths": {"s3://": "data/s3/"},
        "parameters": {"x": ""},
    }


def test_a_folder_without_a_pipeline_is_refused(sluice: Sluice, theirs: Path) -> None:
    """Nothing is written."""
    (theirs / "a.py").write_text("print(1)\n", "utf-8")
    (theirs / "b.py").write_text("print 1\n", "utf-8")
    assert sluice("adopt", str(theirs)).stderr.startswith("[ADOPTION_NOTHING_FOUND]")
    assert sluice("adopt", str(theirs / "none")).stderr.startswith("[ADOPTION_FOLDER_MISSING]")
    assert sorted(path.name for path in theirs.iterdir()) == ["a.py", "b.py"]


def test_a_file_that_is_no_python_is_told_and_hides_no_other(sluice: Sluice, project: Path) -> None:
    """What it needs is not known."""
    (project / "app/transformations/broken.py").write_text("import dlt\ndef (:\n", "utf-8")
    result = sluice("adopt", str(project))
    assert "[ADOPTION_MODULE_UNREADABLE]" in result.stderr
    assert yaml.safe_load((project / "sluice.local.yml").read_text("utf-8")) == ENTRIES


ONE = "from pyspark import pipelines as dp\n\n@dp.table\ndef sales(): return spark.range(1)\n"
OTHER = "CREATE OR REFRESH MATERIALIZED VIEW sales AS SELECT 1;\n"


def _spec_files(folder: Path) -> dict[str, list[str]]:
    """The specs below a folder, each with the files of its pipeline."""
    specs = sorted(folder.rglob("*pipeline.yml"))
    return {spec.relative_to(folder).as_posix(): [each.pattern for each in load_spec(spec).libraries] for spec in specs}


def test_files_that_declare_the_same_datasets_are_several_pipelines(sluice: Sluice, theirs: Path) -> None:
    """Folders tell them apart, or else files; files of one name are told apart by their endings."""
    rest = OTHER.replace("sales", "costs")
    for name, text in {"a/x.py": ONE, "a/y.sql": rest, "b/x.sql": OTHER, "b/x.py": ONE, "b/y.py": ONE}.items():
        (theirs / name).parent.mkdir(exist_ok=True)
        (theirs / name).write_text(text, "utf-8")
    result = sluice("adopt", str(theirs))
    assert result.stderr.startswith("[ADOPTION_SEVERAL_PIPELINES] 4 files declare the same datasets (sales)")
    assert _spec_files(theirs) == {
        "a/pipeline.yml": ["x.py", "y.sql"],
        "b/x_py.pipeline.yml": ["x.py"],
        "b/x_sql.pipeline.yml": ["x.sql"],
        "b/y.pipeline.yml": ["y.py"],
    }
    again = sluice("adopt", str(theirs))
    assert (again.exit_code, again.stderr, "Wrote" in again.stdout) == (0, "", False)


SOURCES = """import dlt
@dlt.table
def raw_{name}():
    return spark.read.table("{schema}.{name}")
"""
TARGETS = """import dlt
dlt.create_streaming_table("{name}")
dlt.create_auto_cdc_flow(target="{name}", source="raw_{name}", keys=["id"], sequence_by="at")
"""


def test_names_of_sources_that_datasets_have_too_are_no_names_of_the_pipeline(sluice: Sluice, theirs: Path) -> None:
    """A table that keeps the name of its source would depend on itself; names in Python and SQL are compared."""
    own = "CREATE MATERIALIZED VIEW sums AS SELECT count(*) FROM lake.gold.parts;\n"
    files = {
        "a/raw.py": SOURCES.format(schema="lake.landing", name="parts"),
        "a/parts.py": TARGETS.format(name="parts"),
        "a/bikes.sql": "CREATE MATERIALIZED VIEW bikes AS SELECT * FROM lake.landing.bikes;\n",
        "b/raw.py": SOURCES.format(schema="lake.landing", name="parts"),
        "b/parts.py": TARGETS.format(name="parts"),
        "b/sums.sql": own,
    }
    for name, text in files.items():
        (theirs / name).parent.mkdir(exist_ok=True)
        (theirs / name).write_text(text, "utf-8")
    results = [sluice("adopt", str(theirs / folder)).stdout for folder in "ab"]
    specs = [load_spec(theirs / folder / "pipeline.yml") for folder in "ab"]
    assert [(spec.catalog, spec.schema) for spec in specs] == [("main", "default"), ("lake", "gold")]
    shown = [[name for name in ("parts", "bikes") if f"lake.landing.{name} " in result] for result in results]
    assert shown == [["parts", "bikes"], ["parts"]]


def test_views_of_scripts_are_of_a_pipeline_and_those_of_notebooks_for_looking_are_not(
    sluice: Sluice, theirs: Path
) -> None:
    """A notebook that only makes views and changes tables is none of its files; one with words of pipelines is."""
    view = "CREATE OR REPLACE VIEW {name} AS SELECT * FROM live.orders WHERE n = 1;\n"
    looks = view.replace("live.", "shop.").format(name="seen")
    files = {
        "one.sql": view.replace("live.", "").format(name="one"),
        "changes.sql": looks + "ALTER TABLE x SET OWNER TO y;\n",
        "looks.sql": "-- Databricks notebook source\n" + looks,
        "looks.py": "# Databricks notebook source\n# MAGIC %sql\n# MAGIC " + looks,
        "two.sql": "-- Databricks notebook source\n" + view.format(name="two"),
        "orders.sql": "CREATE STREAMING TABLE orders AS SELECT * FROM STREAM(raw.orders);\n",
    }
    for name, text in files.items():
        (theirs / name).write_text(text, "utf-8")
    assert sluice("adopt", str(theirs)).exit_code == 0
    assert _spec_files(theirs) == {"pipeline.yml": ["one.sql", "orders.sql", "two.sql"]}


def test_each_bundle_below_a_folder_gets_the_specs_of_its_pipelines(sluice: Sluice, theirs: Path) -> None:
    """What only a workspace knows has a name in its place, with a note; files of no bundle are a pipeline, too."""
    values = "name: etl, catalog: '${var.lake}', configuration: {at: '${workspace.host}/${workspace.current_user.id}'}"
    resource = f"resources: {{pipelines: {{etl: {{{values}, libraries: [{{file: {{path: m.py}}}}]}}}}}}\n"
    bundle = "bundle: {name: b}\nvariables: {lake: {}}\ntargets: {prod: {}, dev: {}}\n" + resource
    for name, text in {"a/databricks.yml": bundle, "a/m.py": ONE, "x.sql": OTHER}.items():
        (theirs / name).parent.mkdir(exist_ok=True)
        (theirs / name).write_text(text, "utf-8")
    result = sluice("adopt", str(theirs))
    assert "[ADOPTION_TARGET_CHOSEN]" in result.stderr
    assert f"read for 'dev'.\n  at {theirs / 'a/databricks.yml'}:1" in result.stderr
    assert "[ADOPTION_VARIABLES_NAMED]" in result.stderr
    assert _spec_files(theirs) == {"a/pipeline.yml": ["m.py"], "pipeline.yml": ["x.sql"]}
    spec = load_spec(theirs / "a/pipeline.yml")
    assert (spec.catalog, spec.configuration) == ("lake", (("at", "https://workspace.example.com/0"),))


def test_a_bundle_that_can_not_be_read_is_told_if_it_is_all(sluice: Sluice, theirs: Path) -> None:
    """Its own error is of more use than that there is nothing."""
    (theirs / "databricks.yml").write_text("bundle: {name: b}\ntargets: {dev: {mode: none}}\n", "utf-8")
    assert sluice("adopt", str(theirs)).stderr.startswith("[BUNDLE_")


def test_a_file_that_declares_with_a_module_that_it_does_not_import_is_told(sluice: Sluice, theirs: Path) -> None:
    """It would fail, so that no spec has it; a parameter, or a notebook that it runs, may be the module."""
    bare = "@dlt.table\ndef a(): ...\n"
    run = f"# Databricks notebook source\n# MAGIC %run ./setup\n\n# COMMAND ----------\n{bare}"
    function = "def make(dlt):\n    dlt.create_streaming_table('t')\n"
    for name, text in {"ours.py": ONE, "bare.py": bare, "run.py": run, "function.py": function}.items():
        (theirs / name).write_text(text, "utf-8")
    (theirs / "setup.py").write_text("import dlt\n", "utf-8")
    stderr = sluice("adopt", str(theirs)).stderr
    assert stderr.count("[ADOPTION_INTERFACE_NOT_IMPORTED]") == 1
    assert f"at {theirs / 'bare.py'}:1" in stderr
    assert _spec_files(theirs) == {"pipeline.yml": ["ours.py", "run.py"]}


FACTORY = """\
import dlt

class Maker:
    def make(self, name):
        @dlt.table(name=name)
        def made(): return spark.range(1)
"""


def test_a_module_that_declares_for_others_is_no_file_of_the_pipeline(sluice: Sluice, theirs: Path) -> None:
    """Those that call it are, however they import it; one that nobody imports may be called by a file elsewhere."""
    files = {
        "app/lib/__init__.py": "from lib.maker import Maker\n",
        "app/lib/maker.py": FACTORY,
        "app/lib/other.py": FACTORY,
        "app/run/one.py": "from lib.maker import Maker\nMaker().make('a')\n",
        "app/run/two.py": "from lib import maker\nfor each in 'bc':\n    maker.Maker().make(each)\n",
        "app/run/own.py": FACTORY + "Maker().make('d')\n",
    }
    for name, text in files.items():
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name).write_text(text, "utf-8")
    assert sluice("adopt", str(theirs)).exit_code == 0
    named = ["app/lib/other.py", "app/run/one.py", "app/run/own.py", "app/run/two.py"]
    assert _spec_files(theirs) == {"pipeline.yml": named}
    assert load_spec(theirs / "pipeline.yml").root_path == "app"


def test_a_module_in_a_folder_of_the_workspace_is_found_by_the_end_of_its_path(sluice: Sluice, theirs: Path) -> None:
    """A folder that code adds to `sys.path` is no package and no path to fill in, and its factory no library."""
    added = "import sys\nsys.path.append('/Workspace/Repos/me/project/lib')\n"
    files = {
        "lib/maker.py": FACTORY,
        "jobs/day/one.py": f"{added}from maker import Maker\nMaker().make('a')\n",
    }
    for name, text in files.items():
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name).write_text(text, "utf-8")
    result = sluice("adopt", str(theirs))
    assert "maker" not in result.stdout
    assert _spec_files(theirs) == {"pipeline.yml": ["jobs/day/one.py"]}
    assert load_spec(theirs / "pipeline.yml").root_path == "lib"
    assert not (theirs / "sluice.local.yml").exists()


def test_files_with_temporary_views_only_get_no_spec(sluice: Sluice, theirs: Path) -> None:
    """Nothing would be stored; beside tables of the same pipeline they are libraries."""
    view = "import dlt\n@dlt.view\ndef looked_at(): return spark.range(1)\n"
    (theirs / "look").mkdir()
    (theirs / "look/a.py").write_text(view, "utf-8")
    (theirs / "look/b.sql").write_text("CREATE TEMPORARY VIEW looked_at AS SELECT 1;", "utf-8")
    assert "[ADOPTION_NOTHING_FOUND]" in sluice("adopt", str(theirs)).stderr
    for name, text in {"one.py": ONE, "view.py": view.replace("looked_at", "seen")}.items():
        (theirs / name).write_text(text, "utf-8")
    sluice("adopt", str(theirs))
    assert _spec_files(theirs) == {"pipeline.yml": ["one.py", "view.py"]}


def test_secrets_that_settings_of_a_spec_refer_to_are_entries(sluice: Sluice, theirs: Path) -> None:
    """Each has the line of its setting."""
    settings = "configuration: {a: 1}\nspark_conf:\n  b.key: 'x={{secrets/lake/sas}}'\n"
    (theirs / "pipeline.yml").write_text(f"name: p\n{settings}libraries: [{{file: {{path: m.py}}}}]\n", "utf-8")
    (theirs / "m.py").write_text("import dlt\n", "utf-8")
    assert sluice("adopt", str(theirs)).exit_code == 0
    written = (theirs / "sluice.local.yml").read_text("utf-8")
    assert yaml.safe_load(written) == {"secrets": {"lake": {"sas": {"env": "SLUICE_SECRET_LAKE_SAS"}}}}
    assert "# pipeline.yml:4" in written


def test_samples_are_written_if_they_are_asked_for(sluice: Sluice, theirs: Path) -> None:
    """Also when the local file is there already; they are data, so the files of the code stay as they are."""
    code = "import dlt\n@dlt.table\ndef a(): return spark.read.json('/mnt/lake/in').select('id', 'price')\n"
    (theirs / "m.py").write_text(code, "utf-8")
    assert "sample" not in sluice("adopt", str(theirs)).stdout
    assert "in/sample.json, a sample." in sluice("adopt", "--samples", str(theirs)).stdout
    assert (theirs / "data/mnt/lake/in/sample.json").read_text("utf-8") == '{"id": 1, "price": 1}\n'
    assert (theirs / "m.py").read_text("utf-8") == code
