"""Passwords in exceptions of the user's code are neither in the events nor on the screen, however it got them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

from framework import Pipeline
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.diagrams.notebook import result_html
from framework.diagrams.preview import Preview

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECRETS = {
    "token": "Token/In.Configuration+51",
    "url": "In=Jdbc'7431",
    "azure": "c29tZSBrZXkgb2YgYSBzdG9yYWdlIGluIHNwYXJrX2NvbmY+/w==",
    "file": "in file@88",
    "variable": "In-Variable:19",
    "option": "Option-Of-Reader-77",
}
_SPEC = {
    "name": "bank",
    "libraries": [{"file": {"path": "bank.py"}}],
    "configuration": {
        "api_token": _SECRETS["token"], "url": f'jdbc:sqlserver://db;user=sa;password="{_SECRETS["url"]}"',
    },
    "spark_conf": {"spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": _SECRETS["azure"]},
}  # fmt: skip
_MODULE = """
import json, logging, os, sys, urllib.parse, warnings
from pathlib import Path

from pyspark.sql import functions as sql

from framework import pipelines as dp

HERE = Path("{here}")
token = spark.conf.get("api_token")
known = {{
    "token": token,
    "url": spark.conf.get("url"),
    "azure": {azure!r},
    "file": (HERE / "connections.yml").read_text(),
    "variable": os.environ["SLUICE_CONNECTION_SHOP"],
    "option": "Option-Of-Reader-77",
}}


def stream():
    return spark.readStream.format("delta").option("my.password", known["option"]).load(str(HERE / "source"))


def failing(name, secret):
    def fail(frame, batch):
        print("print", secret)
        print("print", secret, file=sys.stderr)
        logging.getLogger("bank").error("log %s", secret)
        cause = KeyError(json.dumps([secret, urllib.parse.quote(secret, "")]))
        raise ValueError(f"no access with {{secret}}") from cause

    dp.foreach_batch_sink(name=f"sink_{{name}}")(fail)
    dp.append_flow(target=f"sink_{{name}}", name=f"flow_{{name}}")(stream)


for name, secret in known.items():
    failing(name, secret)


@sql.udf("string")
def checked(value):
    raise RuntimeError(f"denied: {{token!r}}")


@dp.table(comment=f"Read with {{token}}", table_properties={{"read.with": token}})
def in_tasks():
    return stream().select(checked("id").alias("checked"))


@dp.materialized_view
def rows():
    return spark.createDataFrame([(token,)], "token STRING")


@dp.on_event_hook
def hook(event):
    raise RuntimeError(f"no hook for {{token}}")
"""


class Bank:
    """The pipeline's folder, its commands in this process, and all that they wrote for people."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.shown: list[str] = []

    def pipeline(self) -> Pipeline:
        """Open the pipeline."""
        return Pipeline.from_spec(self.folder / "pipeline.yml", storage=self.folder / "storage", spark=self.spark)

    def sluice(self, *arguments: str) -> Result:
        """Run a command, and keep what it printed."""
        around = Surroundings(open_pipeline=lambda *_, **__: self.pipeline())
        command = [*arguments, "--spec", str(self.folder / "pipeline.yml")]
        result = CliRunner().invoke(cli, command, obj=around, prog_name="sluice")
        self.shown.append(f"{result.stdout}\n{result.stderr}")
        return result

    def leaks(self) -> list[tuple[str, str]]:
        """Return each place that has a secret, plain or encoded."""
        texts = dict(enumerate(self.shown))
        kept = [*(self.folder / "storage").glob("events/*"), self.folder / "storage" / "graph.html"]
        places = {str(place): text for place, text in texts.items()} | {
            str(each): each.read_text("utf-8") for each in kept
        }
        forms = {
            form: name
            for name, secret in _SECRETS.items()
            for form in (secret, quote(secret, ""), json.dumps(secret)[1:-1])
        }
        return sorted({(place, name) for place, text in places.items() for form, name in forms.items() if form in text})


@pytest.fixture
def bank(interpreting: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bank:
    """A pipeline whose flows fail with a secret each."""
    monkeypatch.setenv("SLUICE_CONNECTION_SHOP", f"postgresql://joe:{quote(_SECRETS['variable'], '')}@db/shop")
    (tmp_path / "connections.yml").write_text(
        f"bank: postgresql://joe:{quote(_SECRETS['file'], '')}@db/bank\n", "utf-8"
    )
    (tmp_path / "pipeline.yml").write_text(json.dumps(_SPEC), "utf-8")
    (tmp_path / "bank.py").write_text(_MODULE.format(here=tmp_path, azure=_SECRETS["azure"]), "utf-8")
    interpreting.range(1).write.format("delta").save(str(tmp_path / "source"))
    return Bank(interpreting, tmp_path)


def test_no_secret_of_a_users_exception_is_written(bank: Bank) -> None:
    """Of batch functions, tasks, hooks, prints and logs; in events, tables, JSON, pages and tracebacks; rows stay."""
    failed = bank.sluice("run", "-v", "-o", "json")
    assert failed.exit_code == 1
    found = {flow["flow"]: flow["error"] for flow in json.loads(failed.stdout)["flows"] if flow.get("error")}
    assert len(found) == len(_SECRETS) + 1
    assert failed.stderr.count("no access with [REDACTED]") >= 2
    assert "no access with postgresql://joe:[REDACTED]@db/shop" in failed.stderr
    assert "denied: '[REDACTED]'" in failed.stderr
    assert "print [REDACTED]" in failed.stderr
    for arguments in (
        ("doctor",),
        ("doctor", "-o", "json"),
        ("events",),
        ("events", "-o", "json"),
        ("validate",),
        ("graph",),
    ):
        bank.sluice(*arguments)
    bank.sluice("sql", "SELECT nothing FROM rows WHERE 'Option-Of-Reader-77' = token", "-v")
    pipeline = bank.pipeline()
    outcome = pipeline.run()
    bank.shown += [
        result_html(outcome),
        repr(outcome),
        str(outcome),
        repr(pipeline.graph),
        *(str(flow.error) for flow in outcome.flows),
    ]
    assert bank.leaks() == []
    assert json.loads(bank.sluice("show", "rows", "-o", "json").stdout) == [{"token": _SECRETS["token"]}]
    assert _SECRETS["token"] in Preview(pipeline.table("rows"), 10)._repr_html_()


def test_a_module_that_raises_with_a_secret_does_not_print_it(bank: Bank) -> None:
    """Before any table is known, with the traceback of -v."""
    (bank.folder / "bank.py").write_text(
        "import os\nraise ValueError('\\n'.join([spark.conf.get('url'), os.environ['SLUICE_CONNECTION_SHOP']]))",
        "utf-8",
    )
    failed = bank.sluice("validate", "-v")
    assert failed.exit_code == 2
    assert 'password="[REDACTED]" postgresql://joe:[REDACTED]@db/shop' in failed.stderr
    (bank.folder / "storage").mkdir(exist_ok=True)
    (bank.folder / "storage" / "graph.html").touch()
    assert bank.leaks() == []
