"""`sluice session`: what a command may rely on, whether the session is ready, used, lost or of another kind."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.e2e.session_room import MASTER, Room, in_use, runs, until
from tests.support.command_line import SLUICE, result_of

ONE = ("sql", "SELECT 1 AS one", *MASTER, "-o", "json")

SLOW = """
    import time
    from pyspark import pipelines as dp
    from pyspark.sql.functions import udf

    nap = float(spark.conf.get("nap"))

    @udf("int")
    def slowly(n):
        time.sleep(nap)
        return n

    @dp.table
    def numbers():
        files = spark.readStream.format("json").schema("n INT").option("maxFilesPerTrigger", 1)
        return files.load(spark.conf.get("data")).select(slowly("n").alias("n"))
"""
PRICES = """
    from pyspark import pipelines as dp
    from pyspark.sql.functions import udf
    from rates import rated

    @udf("int")
    def price(n):
        import taxes

        return rated(n) + taxes.TAX

    @dp.materialized_view
    def prices():
        return spark.range(3).select(price("id").alias("price"))
"""
USERS = """
    @dp.temporary_view
    def changes():
        files = spark.readStream.format("json").schema("id INT, name STRING, seq INT")
        return files.load(spark.conf.get("data"))

    dp.create_streaming_table("users")
    dp.create_auto_cdc_flow(target="users", source="changes", keys=["id"], sequence_by="seq")
"""

LISTENERS = """
    def listeners(bus):
        field = bus.getClass().getDeclaredField("queues")
        field.setAccessible(True)
        return " ".join(queue.listeners().toString() for queue in field.get(bus).toArray())
"""
LEAVE_EVERYTHING = f"""{LISTENERS}
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event): pass
        def onQueryProgress(self, event): pass
        def onQueryTerminated(self, event): pass

    spark = Pipeline(name="first", master="local[2]", spark_conf={{"spark.sql.shuffle.partitions": "7"}}).spark
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    spark.range(3).createTempView("left_view")
    spark.range(3).createGlobalTempView("left_global")
    spark.sql("CACHE TABLE left_cached AS SELECT 1 AS n")
    spark.sql("DECLARE VARIABLE left_variable INT DEFAULT 7")
    spark.udf.register("left_function", lambda n: n)
    spark.conf.set("spark.sql.shuffle.partitions", "77")
    spark.conf.set("left.setting", "77")
    jvm.java.lang.System.setProperty("left.property", "77")
    spark.streams.addListener(Listener())
    context.addSparkListener(jvm.org.apache.spark.scheduler.StatsReportListener())
    print(json.dumps({{
        "partitions": partitions,
        "views": sorted(table.name for table in spark.catalog.listTables() if table.isTemporary),
        "stats": "StatsReportListener" in listeners(context.listenerBus()),
        "streams": listeners(context.listenerBus()).count("StreamingQueryListenerBus"),
    }}))
"""
STARTS = """
    import os
    from framework.session import spark_session
    from framework.session.cold_start import take_cold_start

    # In place of the start of a JVM, which takes seconds: what it would be started with.
    spark_session.launch_directly = spark_session.open_session = lambda given: given
    reasons = []
    for settings, variables, folder, cold in %r:
        os.environ.update(variables)
        os.chdir(folder)
        spark_session.start_session(app_name="a start", master="local[2]", spark_conf=settings, cold=cold)
        reasons.append(take_cold_start().refusal)
        for name in variables:
            del os.environ[name]
    print(json.dumps(reasons))
"""
START_OF_A_PIPELINE = """
    from framework.session import spark_session

    def started(_):
        print(json.dumps("started"))
        raise SystemExit

    spark_session.launch_directly = started
    Pipeline.from_spec("pipeline.yml", master="local[2]", cold=True).spark
"""
LEAVE_WHAT_LASTS = """
    spark = Pipeline(name="first", master="local[2]").spark
    spark.sql("CREATE DATABASE left_database")
    spark.sql("CREATE TABLE left_table (n INT) USING delta")
    spark.sql("CREATE TABLE left_database.inner_table (n INT) USING parquet")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("left.hadoop", "77")
    hadoop.set("io.file.buffer.size", "8192")
    jvm = spark._jvm
    jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone("Asia/Tokyo"))
    jvm.java.util.Locale.setDefault(jvm.java.util.Locale.forLanguageTag("tr-TR"))
    print(json.dumps("done"))
"""
FIND_EVERYTHING = f"""{LISTENERS}
    spark = Pipeline(name="second", master="local[2]").spark
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    folder = jvm.java.io.File(jvm.org.apache.spark.util.Utils.getLocalDir(context.conf()))
    print(json.dumps({{
        "databases": [database.name for database in spark.catalog.listDatabases()],
        "tables": [table.name for table in spark.catalog.listTables()],
        "views": [row.viewName for row in spark.sql("SHOW VIEWS IN global_temp").collect()],
        "functions": [found.name for found in spark.catalog.listFunctions() if found.name.startswith("left_")],
        "nothing cached": spark._jsparkSession.sharedState().cacheManager().isEmpty(),
        "persistent": spark.sparkContext._jsc.getPersistentRDDs().size(),
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "setting": spark.conf.get("left.setting", "none"),
        "hadoop": context.hadoopConfiguration().get("left.hadoop"),
        "buffer": context.hadoopConfiguration().get("io.file.buffer.size"),
        "property": jvm.java.lang.System.getProperty("left.property"),
        "stats": "StatsReportListener" in listeners(context.listenerBus()),
        "streams": listeners(context.listenerBus()).count("StreamingQueryListenerBus"),
        "folders of PySpark": sum(name.startswith("pyspark-") for name in folder.list()),
    }}))
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """The folder of all tests, with one project that is found without naming it."""
    found = Room(tmp_path_factory.mktemp("room"), Path(tempfile.mkdtemp(prefix="s", dir="/tmp")))
    data = {"data": str(found.folder / "users-data")}
    found.project("pipeline", dedent(PRICES) + dedent(USERS), configuration=data)
    yield found
    found.close()


@pytest.fixture
def session(room: Room) -> Any:
    """The status of the room's session, which is ready and unused."""
    return room.start()


def is_one(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether the query of one row succeeded."""
    return bool(result_of(done) == [{"one": 1}])


def used_since(room: Room, before: Any) -> int:
    """Return how many commands used the same JVM since a status."""
    until(lambda: room.status()["user"] is None, "the end of the last command's use")
    now = room.status()
    assert (now["jvm"], now["user"]) == (before["jvm"], None), room.log()
    return int(now["commands"] - before["commands"])


def test_a_session_that_is_ready_is_not_started_twice(room: Room, session: Any) -> None:
    """A second `start` prints the status of the first one, and `status` prints what the server answers."""
    done = room.sluice("session", "start", *MASTER)
    assert done.stdout.startswith(f"Spark is ready for the commands in {room.folder} (process {session['pid']}, ")
    printed = result_of(room.sluice("session", "status", "-o", "json"))
    assert printed == {**room.status(), "idle_seconds": printed["idle_seconds"]}
    assert used_since(room, session) == 0


def test_a_session_in_use_is_not_stopped(room: Room, session: Any) -> None:
    """`stop` is refused and names the user; the session goes on after its use, and after a SIGINT."""
    with in_use(room):
        os.kill(session["pid"], signal.SIGINT)
        stop = room.sluice("session", "stop")
    assert (stop.returncode, stop.stdout) == (1, "")
    assert stop.stderr.startswith(f"[SESSION_IN_USE] Process {os.getpid()} (pytest a-test) uses ")
    assert used_since(room, session) == 0


@pytest.fixture(scope="module")
def shop(room: Room) -> Any:
    """The rows after two updates, what the commands said, and how many of them used the session.

    Before the second update there were other code and more events.
    """
    before, said = room.start(), []
    for seq, (rate, tax, names) in enumerate(((1, 0, ["Ann", "Bob"]), (10, 5000, ["Anna"]))):
        room.write("rates.py", f"def rated(n):\n    return n * {rate}\n")
        room.write("lib/taxes.py", f"TAX = {tax}\n")
        rows = [{"id": number, "name": name, "seq": seq} for number, name in enumerate(names)]
        room.write(f"users-data/{seq}.json", "\n".join(map(json.dumps, rows)))
        done = room.sluice("run", *MASTER, "-o", "json")
        assert result_of(done)["state"] == "COMPLETED"
        said.append(done.stderr)
    query = "SELECT sort_array(collect_list(%s)) AS found FROM %s"
    both = " UNION ALL ".join(query % each for each in (("string(price)", "prices"), ("name", "users")))
    done = room.sluice("sql", both, *MASTER, "-o", "json")
    return [row["found"] for row in result_of(done)], [*said, done.stderr], used_since(room, before)


def test_commands_of_the_folder_use_its_one_jvm(shop: Any) -> None:
    """Commands leave the JVM running, are counted, and say nothing about a start."""
    _, (*of_updates, of_query), used = shop
    assert used == 3
    assert of_query == ""
    assert [said for said in of_updates if "Spark" in said] == []


def test_edited_code_is_used_at_once(shop: Any) -> None:
    """A function has the new code of a module beside the pipeline, and of one that its Python worker imports."""
    (prices, _), _, used = shop
    assert (prices, used) == (["5000", "5010", "5020"], 3)


def test_auto_cdc_works_in_command_after_command(shop: Any) -> None:
    """The callbacks of a stream reach the Python of their own command."""
    (_, users), _, used = shop
    assert (users, used) == (["Anna", "Bob"], 3)


def test_a_command_with_other_circumstances_starts_cold_and_says_why(room: Room, session: Any, tmp_path: Path) -> None:
    """The reason names an environment variable without its value, and a setting that only a start can set.

    There is none in another folder, with SLUICE_SESSION=off, or with the option `--cold`. While a process uses the
    session, the reason names it.
    """
    here = str(room.folder)
    cases: list[tuple[dict[str, str], dict[str, str], str, bool]] = [
        ({}, {"AWS_PROFILE": "not-for-eyes"}, here, False),
        ({"spark.driver.memory": "1500m"}, {}, here, False),
        ({}, {"SLUICE_SESSION": "off"}, here, False),
        ({}, {}, str(tmp_path), False),
        ({}, {}, here, True),
    ]
    assert room.script(STARTS % cases) == [
        "it was started with other values of environment variables (AWS_PROFILE)",
        "it was started with other settings that only a start can set (spark.driver.memory)",
        None,
        None,
        None,
    ]
    with in_use(room):
        assert room.script(STARTS % cases[:1]) == [f"process {os.getpid()} (pytest a-test) uses it"]
    assert used_since(room, session) <= 1  # the one that compared the settings in the JVM


def test_an_option_turns_the_session_off(room: Room, session: Any) -> None:
    """With `--cold` a pipeline starts Spark; the test before this one has that nothing is said about it."""
    assert room.script(START_OF_A_PIPELINE) == "started"
    assert used_since(room, session) == 0


NOTHING = {
    "databases": ["default"],
    "tables": [],
    "views": [],
    "functions": [],
    "nothing cached": True,
    "persistent": 0,
    "partitions": "2",
    "setting": "none",
    "hadoop": None,
    "buffer": "65536",
    "property": None,
    "stats": False,
    "folders of PySpark": 2,  # that of the session, and that of the command that looks
}


def test_nothing_of_a_command_is_there_for_the_next(room: Room, session: Any) -> None:
    """Views, caches, functions, settings, Java properties, listeners and folders end with their command.

    A setting of the spec that a session can change needs no start, and ends with the command too.
    """
    left = room.script(LEAVE_EVERYTHING)
    streams = left.pop("streams")
    assert left == {"partitions": "7", "views": ["left_cached", "left_view"], "stats": True}
    assert room.script(FIND_EVERYTHING) == {**NOTHING, "streams": streams - 1}
    assert used_since(room, session) == 2


def test_a_jvm_that_would_keep_something_is_replaced(room: Room, session: Any) -> None:
    """What else would decide rows of the next command ends with its JVM: the default time zone, tables in memory."""
    assert room.script(LEAVE_WHAT_LASTS) == "done"
    until(lambda: room.status().get("jvm", session["jvm"]) != session["jvm"], "a new JVM")
    fresh, log = room.status(), room.log()
    for changed in ("the databases", "Hadoop's configuration", "the default time zone", "the default locale"):
        assert changed in log
    assert room.script(FIND_EVERYTHING).items() >= NOTHING.items()
    assert used_since(room, fresh) == 1


def is_locked(lock: Path) -> bool:
    """Return whether a process holds a lock."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def commits(storage: Path) -> int:
    """The number of batches that the update has committed."""
    return len([*storage.rglob("commits/*")])


@contextmanager
def in_the_middle(room: Room, spec: tuple[str, str], storage: Path) -> Iterator[subprocess.Popen[str]]:
    """Run an update in the session until it has committed a batch; it would run for some more seconds."""
    before = commits(storage)
    with subprocess.Popen(
        [*SLUICE, "run", *spec, *MASTER, "--param", "nap=2"],
        cwd=room.folder, env=room.variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        until(lambda: process.poll() is not None or commits(storage) > before, "a batch")
        yield process


def test_updates_that_lose_their_command_or_their_jvm_end_with_every_row_once(room: Room, session: Any) -> None:
    """The lock of a killed update is free only when its JVM is dead, so no stream of it runs beside the next update.

    An update whose JVM is killed ends with one condition, without a traceback and without retries. That ends the
    session, too: the command at once after that and later ones start cold, and the socket is gone.
    """
    for number in range(6):
        room.write(f"slow-data/{number:02}.json", f'{{"n": {number}}}\n')
    spec = room.project("slow", SLOW, configuration={"data": str(room.folder / "slow-data"), "nap": "0"})
    storage = room.folder / ".sluice" / "slow"
    with in_the_middle(room, spec, storage) as process:
        status = room.status()
        assert (status["jvm"], status["user"]["pid"]) == (session["jvm"], process.pid)
        assert is_locked(storage / "update.lock")
        process.kill()
        process.communicate(timeout=60)
    until(lambda: not is_locked(storage / "update.lock"), "a free lock")
    assert not runs(session["jvm"])
    until(lambda: room.status().get("jvm", session["jvm"]) != session["jvm"], "a new JVM")
    fresh = room.status()
    assert fresh["pid"] == session["pid"]
    with in_the_middle(room, spec, storage) as process:
        os.kill(fresh["jvm"], signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "[SPARK_LOST] The Java process of Spark ended" in errors, errors
    assert 1 == errors.count("numbers: FAILED"), errors
    assert "Traceback" not in errors
    assert "py4j" not in errors
    assert commits(storage) < 6
    cold = STARTS % [({}, {}, str(room.folder), False)]
    assert len(room.script(cold)) == 1  # also while the server ends
    until(lambda: not runs(session["pid"]), "the end of the server")
    assert room.status() == {"running": False}
    assert not room.socket.exists()
    assert room.script(cold) == [None]
    room.start()
    assert result_of(room.sluice("run", *spec, *MASTER, "-o", "json"))["state"] == "COMPLETED"
    rows = result_of(room.sluice("sql", "SELECT n FROM numbers ORDER BY n", *spec, *MASTER, "-o", "json"))
    assert [row["n"] for row in rows] == list(range(6))


def test_a_killed_server_leaves_no_jvm_and_another_one_ends_with_its_login(room: Room, session: Any) -> None:
    """The next command starts cold without a word, although the socket is still there; a session can be started again.

    After the shell of a terminal session is gone, no process of its session is left. `tests/unit/session` has the other
    ends: the idle time, the folder and the socket; `test_command_line.py` has `stop`.
    """
    os.kill(session["pid"], signal.SIGKILL)
    until(lambda: not runs(session["jvm"]), "the end of the JVM")
    assert room.socket.exists()
    assert room.script(STARTS % [({}, {}, str(room.folder), False)]) == [None]
    start = " ".join(map(shlex.quote, [*SLUICE, "session", "start", *MASTER, "--idle-minutes", "7"]))
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{start} && echo ready && exec sleep 600"],
        cwd=room.folder, env=room.variables, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as shell:  # fmt: skip
        assert shell.stdout is not None
        assert any(line == "ready\n" for line in shell.stdout)
        again = room.status()
        assert (again["pid"] != session["pid"], again["ends_after_idle_seconds"]) == (True, 420)
        assert is_one(room.sluice(*ONE))
        assert used_since(room, again) == 1
        assert runs(again["jvm"])
        shell.kill()
    until(lambda: not any(map(runs, room.processes())), "the end of the session")
    assert not room.socket.exists()
