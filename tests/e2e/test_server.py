"""The story of docs/server.md: a server starts real updates, is killed, and the next server follows them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.request import Request, urlopen

from tests.e2e.session_room import until
from tests.support.command_line import SLUICE, environment

_PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text("utf-8")
_MODULE = """
from pyspark import pipelines as dp

@dp.table
def orders():
    return spark.readStream.schema("id long, city string").json("data/orders")

@dp.materialized_view
def by_city():
    return spark.read.table("orders").groupBy("city").count()
"""


def make_shop(folder: Path) -> None:
    """Write a pipeline of a streaming table and a view, and one file of its source."""
    (folder / "transformations").mkdir(parents=True)
    (folder / "data" / "orders").mkdir(parents=True)
    (folder / "pipeline.yml").write_text("name: shop\nlibraries:\n  - glob: {include: transformations/**}\n")
    (folder / "transformations" / "shop.py").write_text(dedent(_MODULE))
    (folder / "data" / "orders" / "1.json").write_text('{"id": 1, "city": "Oslo"}\n')


class Place:
    """A folder of pipelines, with the private folders of its user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "pipelines"
        self.variables = {**environment(), "XDG_STATE_HOME": str(folder / "state")}
        make_shop(self.folder / "shop")
        self.token = self.run("token", "create", "nightly", "--role", "operate", "--pipelines", "shop").strip()

    def run(self, *arguments: str) -> str:
        """The output of a command."""
        command = [*SLUICE, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.variables, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    @contextmanager
    def serving(self) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """A server that runs, with its address; it is killed at the end of the block."""
        command = [*SLUICE, "serve", str(self.folder), "--port", "0"]
        process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().partition("/#c=")[0]
        finally:
            process.kill()
            process.communicate()

    def get(self, url: str, path: str) -> Any:
        """The JSON of an answer."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return json.load(urlopen(Request(f"{url}/api/sluice/v1{path}", headers=headers)))  # noqa: S310 - our own server

    def shell(self, url: str, script: str) -> list[Any]:
        """The JSON that each call of a script of the page prints."""
        variables = {**self.variables, "SERVER": url, "TOKEN": self.token}
        calls = [each for each in re.split(r"^(?=curl)", script, flags=re.MULTILINE) if each]
        printed = [subprocess.check_output(["sh", "-ec", each], env=variables, text=True) for each in calls]
        return [json.loads(each) for each in printed]


def test_an_update_outlives_the_server_that_started_it(tmp_path: Path) -> None:
    """Its end, its rows and its events are the next server's."""
    place = Place(tmp_path)
    (calls,) = re.findall(r"```shell\n(curl.*?)```", _PAGE, re.DOTALL)
    with place.serving() as (process, url):
        started, row, events = place.shell(url, calls)
        assert ("STARTING", started["update_id"]) == (row["activity"], row["update"]["update_id"])
        assert [] == events["events"]
        process.send_signal(signal.SIGKILL)
        process.wait()
    with place.serving() as (_, url):
        assert started["update_id"] == place.get(url, "/pipelines/shop")["update"]["update_id"]
        until(lambda: place.get(url, "/pipelines/shop")["activity"] == "IDLE", "the update ends")
        last = place.get(url, "/pipelines/shop")["last"]
        assert (started["update_id"], "COMPLETED", "nightly", "server") == (
            last["update_id"],
            last["state"],
            last["user"],
            last["started_by"],
        )
        grid = place.get(url, "/pipelines/shop/grid")
        assert (["main.default.orders"], [("COMPLETED", 1)]) == (
            grid["flows"],
            [(cell["state"], cell["rows"]) for cell in grid["cells"][0]],
        )
        datasets = {each["name"]: each for each in place.get(url, "/pipelines/shop/datasets")["datasets"]}
        assert (1, "streaming_table") == (
            datasets["main.default.orders"]["rows_written"],
            datasets["main.default.orders"]["kind"],
        )
        elsewhere(place.folder)
        started, *_ = place.shell(url, calls)
        until(lambda: place.get(url, "/pipelines/shop")["activity"] == "IDLE", "the update of the command ends")
        last = place.get(url, "/pipelines/shop")["last"]
        assert (started["update_id"], "COMPLETED") == (last["update_id"], last["state"])
        (launcher,) = place.get(url, "/launchers")["launchers"]
        assert ("other", "command") == (launcher["name"], launcher["kind"])


def elsewhere(folder: Path) -> None:
    """Write a launcher: a command whose shell gets the engine as a quoted text, and another master."""
    command = """["/bin/sh", "-c", "exec {{argv}} --master='local[2]'"]"""
    (folder / "server.yml").write_text(
        f"default: other\nlaunchers:\n  other:\n    kind: command\n    command: {command}\n"
    )
