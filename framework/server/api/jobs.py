"""Routes of work that needs Spark: jobs, their results, and what the doctor found last."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from framework.server.access.roles import Role
from framework.server.pipelines import PipelineEntry
from framework.server.web.endpoints import denied
from framework.server.web.faults import WebFault, invalid, not_found, shortened
from framework.server.web.routes import Call, Route
from framework.server.workbench.jobs import Job
from framework.server.workbench.kinds import KINDS, WAY

_PIPELINE = "/pipelines/{pipeline}"
_LONGEST_WAIT = 30.0
_WAIT = re.compile(r"wait=([0-9]{1,9})")


def _add(call: Call) -> dict[str, Any]:
    entry, name = call.pipeline(), call.path["kind"]
    kind = KINDS.get(name)
    if kind is None:
        raise not_found(f"The kind of job {shortened(name)!r} does not exist: {', '.join(KINDS)}.")
    _check_role(call, kind.role)
    if name == WAY:
        raise invalid("Send a way out to doctor/ways, with the finding that it is for.")
    return _waited(call, entry, name, call.body)


def _waited(call: Call, entry: PipelineEntry, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Queue a job, and wait for it as long as the caller prefers."""
    job = call.server.workbench.add(entry, kind, body)
    prefer = call.request.headers.get("prefer", "")
    found = _WAIT.fullmatch(prefer)
    if found is not None:
        job = call.server.workbench.wait(job.job, min(float(found[1]), _LONGEST_WAIT)) or job
    return _shown(call, job)


def _shown(call: Call, job: Job) -> dict[str, Any]:
    return digested(job).to_json(call.server.workbench.place(job.job))


def _job_of(call: Call) -> Job:
    """Return the job that the path names, if the caller may see it.

    Raises:
        WebFault: 404.
    """
    job = call.server.workbench.get(call.path["job"])
    if job is None or job.pipeline_id not in {each.pipeline_id for each in call.pipelines()}:
        raise not_found(f"The job {shortened(call.path['job'])!r} does not exist, or is forgotten.")
    return job


def _check_role(call: Call, role: Role) -> None:
    """Check that the caller has the role of a kind of job.

    Raises:
        WebFault: 403.
    """
    if not call.caller.role.includes(role):
        raise denied(call.caller, role)


def _get(call: Call) -> dict[str, Any]:
    job = _job_of(call)
    _check_role(call, KINDS[job.kind].reader)
    return _shown(call, job)


def _cancel(call: Call) -> dict[str, Any]:
    job = _job_of(call)
    _check_role(call, KINDS[job.kind].role)
    return _shown(call, call.server.workbench.cancel(job.job) or job)


def _examination(call: Call) -> dict[str, Any]:
    job = call.server.workbench.last(call.pipeline().pipeline_id, "doctor")
    found = None if job is None else digested(job)
    return {
        "examined_at": None if found is None else found.ended_at,
        "examination": None if found is None else found.result,
        "job": None if found is None else found.brief(),
    }


def _way(call: Call) -> dict[str, Any]:
    """Start a way out of a finding of the last examination, if the finding is the one that the caller has seen."""
    entry, body = call.pipeline(), call.body
    number, way, expect = body.get("finding"), body.get("way"), body.get("expect")
    if type(number) is not int or type(way) is not int:
        raise invalid("finding and way must be numbers, from 1.")
    job = call.server.workbench.last(entry.pipeline_id, "doctor")
    findings = [] if job is None else digested(job).result["findings"]
    if not 1 <= number <= len(findings) or findings[number - 1]["digest"] != expect:
        raise WebFault(
            409, "RESOURCE_CONFLICT", "The finding is not that of the last examination: `expect` must be its digest.",
            remedy="Examine again, and choose a way out of the new finding.",
        )  # fmt: skip
    finding = findings[number - 1]
    commands = {each["number"]: each["command"] for each in finding["ways"]}
    if way not in commands:
        raise invalid(f"The finding has no way out {way}.")
    reason = call.reason()
    asked = reason if call.caller.via == "session" else f"{call.caller.user}: {reason}".removesuffix(": ")
    made = {
        "flow": finding["flow"], "way": way, "dry_run": body.get("dry_run", False), "expect": commands[way],
        "reason": asked,
    }  # fmt: skip
    return _waited(call, entry, WAY, made)


def digested(job: Job) -> Job:
    """Return a job of the doctor with a digest of each finding, by which a caller names the one that it has seen."""
    if job.kind != "doctor" or not isinstance(job.result, dict):
        return job
    findings = [{**each, "digest": _digest(each)} for each in job.result.get("findings", ())]
    return job.with_result({**job.result, "findings": findings})


def _digest(finding: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(finding, sort_keys=True).encode()).hexdigest()[:16]


JOB_ROUTES = (
    Route(method="POST", path=f"{_PIPELINE}/jobs/{{kind}}", role=Role.READ, handler=_add, status=202,
          fields=None,
          summary="Start a job; each kind needs its own role.", checks_role_itself=True),
    Route(method="GET", path="/jobs/{job}", role=Role.VIEW, handler=_get, checks_role_itself=True,
          summary="A job with its result."),
    Route(method="DELETE", path="/jobs/{job}", role=Role.VIEW, handler=_cancel, checks_role_itself=True,
          summary="End a job."),
    Route(method="GET", path=f"{_PIPELINE}/doctor", role=KINDS["doctor"].reader, handler=_examination,
          summary="What the doctor found last."),
    Route(method="POST", path=f"{_PIPELINE}/doctor/ways", role=Role.OPERATE, handler=_way, status=202,
          fields=("finding", "way", "dry_run", "reason", "expect"),
          summary="Start a way out of a finding, or its dry run."),
)  # fmt: skip
"""The routes of jobs."""
