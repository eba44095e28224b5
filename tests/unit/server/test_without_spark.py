"""The server's process never has Spark, however it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_LOADED = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j", "delta", "pandas"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refused())
from pathlib import Path
import re
from framework.server.serving import Extras
from framework.server.signals.routes import Signals
from tests.support.server_world import FIRST, record_shop, world_of

folder = Path(sys.argv[1])
record_shop(folder / "shop")
signals = Signals(lambda error, flows: "")
with world_of(folder, extras=Extras(parts=signals.parts, routes=signals.routes)) as world:
    names = {"pipeline": "shop", "update": FIRST, "dataset": "orders", "job": "x", "kind": "x", "token": "x"}
    names["schedule"] = "x"
    for route in world.routes:
        path = re.sub(r"\\{(\\w+)\\}", lambda found: names[found[1]], route.full_path)
        if route.path != "/stream":
            status = world.ask(route.method, path, None if route.method == "GET" else {}).status_code
            assert status != 500, path
print("ok")
"""


def test_all_routes_answer_where_spark_is_not_installed(tmp_path: Path) -> None:
    """In a Python that has neither PySpark, Py4J, Delta nor pandas."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, str(tmp_path)], capture_output=True, text=True, check=False, cwd=root
    )
    assert (0, "ok\n") == (done.returncode, done.stdout), done.stderr
