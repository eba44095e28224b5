"""A stand-in for `sluice run` without Spark: claims its id, holds the update lock, writes events, ends when told.

Run as a script with the storage, the update's id and the request's id. Files of the storage tell it what to do:
`engine-die` kills it before it claims its id, `engine-refuse` ends it with an error of ours, `engine-crash` with
another one, `engine-wait` lets it run until
the file is deleted or a stop request is there, `engine-vanish` kills it while it runs, `engine-linger`
lets its process live on after its last event.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

NAME = "shop"


def event_line(update_id: str, sequence: int, kind: str, details: dict[str, object], **more: object) -> str:
    """Return one line of an event log, as an engine writes it."""
    event = {
        "id": f"{update_id}-{sequence}",
        "sequence": {"data_plane_id": {"instance": update_id, "seq_no": sequence}},
        "origin": {
            "pipeline_id": "p", "pipeline_name": NAME, "update_id": update_id,
            "host": f"{socket.gethostname()}:{os.getpid()}",
            **({"dataset_name": more["dataset"], "flow_name": more["dataset"]} if "dataset" in more else {}),
        },
        "timestamp": more.get("at") or f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}.{sequence:03d}Z",
        "message": more.get("message", f"{kind} {details}"),
        "level": more.get("level", "INFO"),
        "maturity_level": "STABLE",
        "error": more.get("error"),
        "details": {kind: details},
        "event_type": kind,
    }  # fmt: skip
    return json.dumps(event) + "\n"


def main(root: Path, update_id: str, request_id: str, cause: str = "API_CALL") -> int:
    """Run the stand-in; return its exit code."""
    with (root / "ran.txt").open("a") as ran:
        ran.write(f"{update_id}\n")
    if (root / "engine-refuse").exists():
        sys.stderr.write(
            "noise\n[PIPELINE_SPEC_MISSING_REQUIRED_FIELD] The spec is gone.\n  -> Put it back.\n\nrow: 4111\n"
        )
        return 2
    if (root / "engine-crash").exists():
        sys.stderr.write("[INFO] row: 4111\nTraceback\nValueError: row 4111\n")
        return 1
    if (root / "engine-die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    lock = (root / "update.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("[UPDATE_ALREADY_RUNNING] Another update runs.\n")
        return 1
    holder = {"format": 1, "host": socket.gethostname(), "pid": os.getpid(), "update_id": update_id, "since": "now"}
    (root / "update.lock").write_text(json.dumps(holder))
    (root / "events").mkdir(exist_ok=True)
    try:
        with (root / "events" / f"{update_id}.jsonl").open("x") as log:
            log.write(event_line(update_id, 1, "create_update", {"cause": cause, "request_id": request_id}))
            log.write(event_line(update_id, 2, "update_progress", {"state": "RUNNING"}))
            log.flush()
            stop = root / "requests" / f"stop-{update_id}.json"
            while (root / "engine-wait").exists() and not stop.exists():
                time.sleep(0.01)
            if (root / "engine-vanish").exists():
                os.kill(os.getpid(), signal.SIGKILL)
            state = "CANCELED" if stop.exists() else "COMPLETED"
            log.write(event_line(update_id, 3, "update_progress", {"state": state}))
            log.flush()
            while (root / "engine-linger").exists():
                time.sleep(0.01)
    except FileExistsError:
        sys.stderr.write("[UPDATE_ID_USED] The id is used.\n")
        return 2
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
