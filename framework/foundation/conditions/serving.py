"""Conditions of the server."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "UPDATE_REQUEST_INVALID": Condition(
        "The field {field!r} of the request is invalid.", "{why} Nothing was started. Correct the request."
    ),
    "SERVE_KEY_USED": Condition(
        "The key of this request was sent before with another body: it started update {update}.",
        "Nothing was started. Send a new Idempotency-Key with each new request, and the same one to send it again.",
    ),
    "SERVE_STORAGE_TAKEN": Condition(
        "Another server starts the updates of the storage {path}: {holder}.",
        "Send the request to that server, or end it. This server shows the pipeline and does not change it.",
    ),
    "SERVE_PIPELINE_TWICE": Condition(
        "Pipeline {pipeline} has the name and the storage {storage} of the pipeline of {spec}.",
        "Give one of them another name or another storage: their updates can't be told apart.",
    ),
    "SERVE_SPEC_GONE": Condition(
        "Update {update} of pipeline {pipeline} runs or waits, and {spec} is no longer the spec of that pipeline.",
        "Stop the update, or put the spec back. An update that waits is not started.",
    ),
    "SERVE_STORAGE_REMOTE": Condition(
        "Pipeline {pipeline} has its storage at {storage}, which the server can't read yet.",
        "Serve pipelines with local storage; `sluice events` and `sluice lag` read this one.",
    ),
    "SERVE_LAUNCHER_UNKNOWN": Condition(
        "It is unknown where updates of pipeline {pipeline} run. {problems}",
        "Correct `server.yml`. No update of the pipeline starts until then.",
    ),
    "SERVER_FILE_UNREADABLE": Condition(
        "The file {path} can't be read: {cause}.", "Correct it. No update that it decides about starts until then."
    ),
    "SERVER_FILE_INVALID_YAML": Condition(
        "The file {path} is not valid YAML: {cause}", "Correct it. No update that it decides about starts until then."
    ),
    "SERVER_FILE_INVALID": Condition(
        "{what}: {problem}", "Correct it. No update that this file decides about starts until then."
    ),
    "SERVE_QUEUE_FULL": Condition(
        "{most} jobs wait already, which is the most that a server keeps.", "Try again when some of them have ended."
    ),
    "SERVE_PORT_USED": Condition(
        "Port {port} of {address} is in use.", "Choose another one with --port, or end the process that uses it."
    ),
    "SERVE_NOT_RUNNING": Condition(
        "No server of this user runs: {folder} names none.",
        "Start one with `sluice serve`, or name its address: --url.",
    ),
    "SERVE_UNPROTECTED": Condition(
        "The address {address} can be reached from other machines, {lacking}.",
        "Create a token with `sluice token create NAME --role view`, or name a proxy with --trusted-proxy. Name the "
        "host by which browsers reach the server with --allowed-host NAME. Or leave out --address: then only this "
        "machine reaches the server.",
    ),
    "SERVE_PROXY_INVALID": Condition("The {what} {value!r} of a proxy is invalid.", "{expected}"),
    "SERVE_TOKEN_UNKNOWN": Condition(
        "There is no token {token!r}.{hint}", "`sluice token list` has the ids of all tokens."
    ),
    "SERVE_TOKEN_EXISTS": Condition(
        "There is a token with the name {name!r}.", "Choose another name, or revoke that token first."
    ),
    "STATE_NOT_WRITABLE": Condition(
        "{path} is not writable: {problem}.",
        "The server keeps its tokens and sessions there. Make it writable for this user, or set XDG_STATE_HOME.",
    ),
    "SERVE_TOKEN_INVALID": Condition("The {what} {value!r} of a token is invalid.", "{expected}"),
}
