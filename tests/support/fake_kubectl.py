"""A stand-in for `kubectl` and a cluster with one node: creates, shows and deletes Jobs, and runs their container.

Run as a script with the cluster's folder and kubectl's arguments. The folder has each Job with the text that was given,
its pod's output and exit code, and the calls. Its file `full` keeps new pods waiting, `down` is a cluster that does not
answer, `slow` makes a creation take until the file is deleted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def main(cluster: Path, words: list[str]) -> int:
    """Do what kubectl is asked; return its exit code."""
    with (cluster / "calls.txt").open("a") as calls:
        calls.write(f"{' '.join(words)}\n")
    if (cluster / "down").exists():
        sys.stderr.write("Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n")
        return 1
    options = [each for each in words if each.startswith("--")]
    verb, *names = [each for each in words if not each.startswith("--")]
    if verb == "create":
        return _create(cluster, json.load(sys.stdin))
    job = cluster / f"{names[1]}.json"
    if verb == "get":
        assert {"--ignore-not-found", "--output=json"} <= {*options}
        _run(cluster, job)
        if job.exists():
            sys.stdout.write(json.dumps({**json.loads(job.read_text()), "status": _status(job)}))
        return 0
    assert verb == "delete"
    if job.exists():
        pid = job.with_suffix(".pid")
        if pid.exists() and not job.with_suffix(".code").exists():
            os.kill(int(pid.read_text()), signal.SIGTERM)
        job.unlink()
    return 0


def _create(cluster: Path, job: dict[str, Any]) -> int:
    while (cluster / "slow").exists():
        time.sleep(0.01)
    name = job["metadata"]["name"]
    try:
        with (cluster / f"{name}.json").open("x") as file:
            file.write(json.dumps(job))
    except FileExistsError:
        sys.stderr.write(
            f'Error from server (AlreadyExists): error when creating "STDIN": jobs.batch "{name}" already exists\n'
        )
        return 1
    _run(cluster, cluster / f"{name}.json")
    sys.stdout.write(f"job.batch/{name} created\n")
    return 0


def _run(cluster: Path, job: Path) -> None:
    """Start the pod of a Job, if it has none and the node is free."""
    pid = job.with_suffix(".pid")
    if not job.exists() or pid.exists() or (cluster / "full").exists():
        return
    (container,) = json.loads(job.read_text())["spec"]["template"]["spec"]["containers"]
    words = [*container.get("command", ()), *container.get("args", ())]
    code, out = job.with_suffix(".code"), job.with_suffix(".out").open("w")
    # The shell is the pod's first process: it passes SIGTERM on, and writes the exit code.
    script = 'trap "kill -TERM \\$child" TERM; "$@" & child=$!; wait $child; wait $child; echo $? > "$0"'
    pod = subprocess.Popen(
        ["/bin/sh", "-c", script, code, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        start_new_session=True,
    )  # fmt: skip
    pid.write_text(str(pod.pid))


def _status(job: Path) -> dict[str, Any]:
    code = job.with_suffix(".code")
    if not code.exists() or not code.read_text().strip():
        return {"active": 1}
    if int(code.read_text()) == 0:
        return {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    failed = {
        "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit",
    }  # fmt: skip
    return {"failed": 1, "conditions": [failed]}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
