"""Routes of the home page: the caller, the machine, the pipelines, and their sign-in."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from framework.foundation.secrets.secrecy import hide_in_text, is_secret_name
from framework.server.access.roles import Role
from framework.server.access.sessions import SESSION_SECONDS
from framework.server.engines.launch_file import launcher_of
from framework.server.web.endpoints import json_response
from framework.server.web.faults import WebFault
from framework.server.web.guard import Policy
from framework.server.web.routes import Access, Call, Route


def overview_routes(policy: Policy) -> tuple[Route, ...]:
    """Return the routes; signing in and out sets the cookie of this server."""

    def sign_in(call: Call) -> Response:
        """Exchange a one-time code for a session."""
        code = call.body.get("code")
        if not isinstance(code, str) or not call.server.sessions.redeem(code):
            raise WebFault(401, "UNAUTHENTICATED", "The code is used or older than ten minutes: `sluice open`.")
        user = {"user": call.server.settings.user, "role": Role.MANAGE, "via": "session", "token": None}
        response = json_response(user)
        response.set_cookie(
            policy.cookie, call.server.sessions.cookie(), max_age=SESSION_SECONDS, path="/", httponly=True,
            samesite="strict", secure=policy.is_tls,
        )  # fmt: skip
        return response

    def sign_out(call: Call) -> Response:
        """End the session of this browser, also for a copy of its cookie."""
        cookie = call.request.cookies.get(policy.cookie)
        if cookie is not None and call.caller.via == "session":
            call.server.sessions.end(cookie)
        response = json_response({})
        response.delete_cookie(policy.cookie, path="/", httponly=True, samesite="strict", secure=policy.is_tls)
        return response

    return (
        Route(method="POST", path="/session", role=Access.OPEN, handler=sign_in, fields=("code",),
              summary="Sign in with a code."),
        Route(method="DELETE", path="/session", role=Role.VIEW, handler=sign_out, summary="Sign out."),
        Route(method="GET", path="/health", role=Access.OPEN, handler=_health, summary="Whether the server answers."),
        Route(method="GET", path="/whoami", role=Role.VIEW, handler=_whoami, summary="Who asks, and with which role."),
        Route(method="GET", path="/machine", role=Role.VIEW, handler=_machine, summary="Engines and memory."),
        Route(method="GET", path="/launchers", role=Role.VIEW, handler=_launchers,
              summary="Where the updates of each pipeline run."),
        Route(method="GET", path="/pipelines", role=Role.VIEW, handler=_pipelines, summary="All pipelines."),
        Route(method="GET", path="/pipelines/{pipeline}", role=Role.VIEW, handler=_pipeline, summary="One pipeline."),
    )  # fmt: skip


def _health(call: Call) -> dict[str, Any]:
    return {"status": "ok", "version": call.server.settings.version}


def _whoami(call: Call) -> dict[str, Any]:
    caller = call.caller
    return {"user": caller.user, "role": caller.role, "via": caller.via, "token": caller.token}


def _machine(call: Call) -> dict[str, Any]:
    return call.server.machine()


def _pipelines(call: Call) -> dict[str, Any]:
    faults = [] if call.caller.pipelines else [each.to_json() for each in call.server.faults]
    return {"pipelines": [call.server.row(entry).to_json() for entry in call.pipelines()], "faults": faults}


def _launchers(call: Call) -> dict[str, Any]:
    call.only()
    found = [launcher_of(entry, call.server.settings.folders) for entry in call.pipelines()]
    return {"launchers": [each.to_json() for each in found]}


def _pipeline(call: Call) -> dict[str, Any]:
    entry = call.pipeline()
    spec = entry.spec
    return {
        **call.server.row(entry).to_json(),
        "launcher": launcher_of(entry, call.server.settings.folders).to_json(),
        "spec": {
            "file": str(entry.spec_file),
            "storage": entry.storage.root,
            "catalog": spec.catalog,
            "schema": spec.schema,
            "continuous": spec.continuous,
            "development": spec.development,
            "libraries": [each.pattern for each in spec.libraries],
            "configuration": shown_settings(spec.configuration),
        },
    }


def shown_settings(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return settings without the values of secrets."""
    return {name: "[REDACTED]" if is_secret_name(name) else hide_in_text(value) for name, value in settings}
