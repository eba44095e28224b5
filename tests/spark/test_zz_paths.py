"""Explore."""
import json, shutil, os
from pathlib import Path
from framework import pipelines as dp
from tests.support.engine_world import EngineWorld, forget_tables, states
NAMES = {"space": "a b", "backtick": "a`b", "quote": "a'b", "dquote": 'a"b', "percent": "a%20b", "percent2": "50%", "hash": "a#b", "qm": "a?b", "braces": "a{b}", "uni": "aéß漢", "dollar": "a$b", "newline": "a\nb", "colon": "a:b", "backslash": "a\\b", "star": "a*b", "bracket": "a[b]", "comma": "a,b", "plus": "a+b", "amp": "a&b=c", "semi": "a;b", "tilde":"~a", "pipe": "a|b", "lt": "a<b>", "at": "a@b", "trail": "a ", "dotdot": "..a", "tab":"a\tb", "emoji":"a😀", "caret":"a^b", "excl": "a!b","comb":"e\u0301"}
def test_x(interpreting, tmp_path):
    out = open("/tmp/wd/paths.txt", "a")
    only = os.environ.get("XN", ",".join(NAMES)).split(",")
    for key in only:
        root = tmp_path / key / NAMES[key]
        root.mkdir(parents=True)
        world = EngineWorld(interpreting, root)
        plain = tmp_path / f"src_{key}"
        spark = interpreting
        from tests.support.plain_tables import append_rows
        append_rows(spark, str(plain / "s"), [(1, "x")], "id LONG, v STRING")
        land = plain / "land"; land.mkdir()
        (land / "1.json").write_text('{"id": 1}')
        def declare():
            @dp.table
            def append(): return spark.readStream.format("delta").load(str(plain / "s"))
            @dp.table
            def chained(): return spark.readStream.table("append").dropDuplicates(["id"])
            dp.create_streaming_table("cdc")
            @dp.auto_cdc_flow(target="cdc", name="cdc", keys=["id"], sequence_by="id")
            def changes(): return spark.readStream.table("append")
            dp.create_streaming_table("cdc2")
            @dp.auto_cdc_flow(target="cdc2", name="cdc2", keys=["id"], sequence_by="id", stored_as_scd_type=2)
            def changes2(): return spark.readStream.table("append")
            @dp.table
            def files(): return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id LONG").load(str(land))
            @dp.materialized_view
            def view(): return spark.read.table("cdc").groupBy().count()
        res = []
        for step in range(3):
            try:
                kw = {"full_refresh": ["append","cdc"], "refresh": ["chained","cdc2","files","view"]} if step == 2 else {}
                r = world.pipeline(declare).run(**kw)
                bad = {f.flow.table: str(f.error)[:300] for f in r.flows if f.error}
                res.append(r.state.name + (" " + repr(bad) if bad else ""))
            except Exception as e:
                res.append("! " + type(e).__name__ + " " + str(e)[:300]); break
            append_rows(spark, str(plain / "s"), [(2 + step, "y")], "id LONG, v STRING")
            (land / f"{2+step}.json").write_text('{"id": %d}' % (2 + step))
        rows = {}
        for t in ("append", "chained", "cdc", "cdc2", "files", "view"):
            try: rows[t] = [x[0] for x in spark.read.format("delta").load(world.path(t)).select("count" if t == "view" else "id").collect()]
            except Exception as e: rows[t] = "!" + str(e)[:80]
        strays = sorted(str(p.relative_to(tmp_path / key)) for p in (tmp_path / key).iterdir() if p.name != NAMES[key])
        good = all(sorted(rows[t]) == [1, 2, 3] for t in ("append", "chained", "cdc", "cdc2", "files")) and rows["view"] == [3]
        out.write(f"{'ok' if good else 'BAD'} {key} | {res} | {rows} | strays {strays}\n"); out.flush()
