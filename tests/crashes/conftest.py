import time, sys
from tests.crashes import test_mysql as m
from tests.support import mysql_copies as c
def timed(cls, name):
    f = getattr(cls, name)
    def g(*a, **k):
        print("B", name, flush=True)
        t = time.monotonic()
        try: return f(*a, **k)
        finally: print(f"T {name} {time.monotonic()-t:.1f}", flush=True)
    setattr(cls, name, g)
for n in ("kill_process","strike","_end_flows","_kill_reader","_fail_network","_meanwhile"): timed(m.Storm, n)
for n in ("update","settle","create","differing","pipeline"): timed(c.Copies, n)

import faulthandler
faulthandler.dump_traceback_later(170, exit=False, file=open("/tmp/stacks.txt","w"))
