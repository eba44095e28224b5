"""A stand-in for the commands that jobs run: prints its arguments as JSON, fails, or waits, as its folder says."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    if Path("job-wait").exists():
        while Path("job-wait").exists():
            time.sleep(0.01)
    if Path("job-fail").exists():
        sys.stderr.write("noise\n[DATASET_NOT_FOUND] There is no dataset x.\n  -> Correct the name.\n")
        sys.exit(1)
    if "doctor" in sys.argv and "--apply" not in " ".join(sys.argv):
        finding = {"flow": "main.default.orders", "ways": [{"number": 1, "command": "sluice checkpoints reset orders"}]}
        sys.stdout.write(json.dumps({"findings": [finding], "examined": 2}))
        sys.exit(1)
    sys.stdout.write(json.dumps({"arguments": sys.argv[1:], "folder": str(Path.cwd())}))
