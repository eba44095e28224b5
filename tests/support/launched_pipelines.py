"""Pipelines whose updates are started elsewhere: by a script that acts as a command, or by a stand-in for kubectl."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from framework.foundation.clock import Clock
from framework.server.engines.following import every_launcher
from framework.server.engines.launch_file import planned
from framework.server.engines.starter import Starter
from framework.server.pipelines import PipelineEntry
from tests.support import fake_kubectl
from tests.support.served_pipelines import fake_command, served

SCRIPTS = {
    # The command is the engine, as with ssh.
    "stays": 'exec "$@"\n',
    # The command gives the engine to somebody else and ends, without a word; it starts when `nodes` exists.
    "gives": "(n=0; while [ ! -e nodes ]; do n=$((n+1)); [ $n -lt 3000 ] || exit; sleep 0.02; done; "
    'exec "$@") >/dev/null 2>&1 &\n',
    # The command can't do it.
    "refuses": "echo nobody is there >&2; exit 255\n",
}
"""What the commands do, which run in the folder of the spec."""
_JOB = """
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
        - name: engine
          image: sluice
          command: ["{{argv}}"]
"""


def commanded(folder: Path, script: str, *, seconds: float = 600) -> PipelineEntry:
    """Return a pipeline whose updates are started by one of the scripts."""
    entry = served(folder)
    (folder / "elsewhere").write_text("#!/bin/sh\necho once >> commands.txt\n" + SCRIPTS[script])
    (folder / "elsewhere").chmod(0o755)
    (folder / "server.yml").write_text(
        "default: other\nlaunchers:\n  other:\n    kind: command\n    command: [./elsewhere, '{{argv}}']\n"
        f"    start_within_seconds: {seconds}\n"
    )
    return entry


def commands_of(folder: Path) -> int:
    """Return how many times the command was called."""
    calls = folder / "commands.txt"
    return len(calls.read_text().split()) if calls.exists() else 0


def clustered(folder: Path, *, seconds: float = 600) -> PipelineEntry:
    """Return a pipeline whose updates are Jobs of the stand-in's cluster, `folder/cluster`."""
    entry = served(folder)
    cluster = folder / "cluster"
    cluster.mkdir()
    script = Path(fake_kubectl.__file__)
    (folder / "kubectl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}" "{cluster}" "$@"\n')
    (folder / "kubectl").chmod(0o755)
    (folder / "job.yml").write_text(_JOB)
    (folder / "server.yml").write_text(
        "default: jobs\nlaunchers:\n  jobs:\n    kind: kubernetes\n    template: job.yml\n    namespace: data\n"
        f"    kubectl: {folder / 'kubectl'}\n    start_within_seconds: {seconds}\n"
    )
    return entry


def launching(entry: PipelineEntry, clock: Clock, *, most_engines: int = 4) -> Starter:
    """Return a starter that starts updates where the `server.yml` beside the spec says; engines are stand-ins."""
    return Starter(
        lambda: [entry], every_launcher(clock), clock, most_engines=most_engines, command=fake_command,
        plan=partial(planned, (entry.spec_file.parent,)),
    )  # fmt: skip
