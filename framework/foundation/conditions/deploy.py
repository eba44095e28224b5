"""Conditions of deployments: the workspace, state, lock, files, the guard."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "WORKSPACE_NOT_CONFIGURED": Condition(
        "No workspace is configured: {cause}.",
        "Set DATABRICKS_HOST and DATABRICKS_TOKEN, or select a profile of your configuration file with --profile.",
    ),
    "WORKSPACE_OTHER_HOST": Condition(
        "Target {target} belongs to the workspace {wanted}, but the connected workspace is {actual}.",
        "Select a profile of that workspace with --profile, or set DATABRICKS_HOST and DATABRICKS_TOKEN.",
    ),
    "WORKSPACE_UNAUTHENTICATED": Condition(
        "The workspace rejected the credentials ({call}). The token is invalid or has expired.",
        "Sign in again, then deploy again. The deployment continues where it stopped.",
    ),
    "WORKSPACE_FORBIDDEN": Condition(
        "The current user does not have permission for {call}.",
        "Request the permission, or deploy as a user who has it.",
    ),
    "WORKSPACE_CALL_FAILED": Condition(
        "A request to the workspace failed ({call}): {cause}",
        "Correct the cause and deploy again. The deployment continues where it stopped.",
    ),
    "WORKSPACE_ANSWER_LOST": Condition(
        "The response to {method} {path} was lost; the request may have taken effect.",
        "Deploy again. The deployment detects what was applied, and completes the rest.",
    ),
    "DEPLOY_LOCKED": Condition(
        "Another deployment holds the lock {path} (user: {user}, since: {since}).",
        "Wait until that deployment ends. If it is no longer running, use `--force-lock`.",
    ),
    "DEPLOY_LOCK_LOST": Condition(
        "This deployment lost the lock {path} (current holder: {user}). It has written nothing since then.",
        "Wait until the other deployment ends, then deploy again.",
    ),
    "DEPLOY_STATE_INVALID": Condition(
        "The deployment state {path} cannot be read: {cause}.",
        "Restore the file from a backup, or move it away and bind each resource with `sluice bundle bind`.",
    ),
    "DEPLOY_FILE_OUTSIDE": Condition(
        "{path} lies outside the bundle's root folder {root}.",
        "Copy the file into the bundle, or exclude it. Only files below the root folder are uploaded.",
    ),
    "DEPLOY_RESOURCE_EXISTS": Condition(
        "{key}: the workspace already has an object in {kind} named {name!r}, which this bundle does not manage.",
        "Bind it with `sluice bundle bind {key} ID`, or choose a different name.",
    ),
    "DEPLOY_RESOURCE_UNKNOWN": Condition(
        "Target {target} has no resource {key}.{hint}", "Correct the key. `sluice bundle plan` lists the resources."
    ),
    "DEPLOY_NOT_BOUND": Condition(
        "{key} is not in the deployment state of target {target}, so its remote changes cannot be accepted.",
        "Bind it first with `sluice bundle bind {key} ID`.",
    ),
    "GUARD_STATE_UNKNOWN": Condition(
        "The gateways that the deployment affects cannot be determined: {cause}.",
        "Do not deploy yet. Bind each gateway, and each job that runs one, with `sluice bundle bind KEY ID`, or "
        "correct the cause.",
    ),
    "DEPLOY_BIND_TAKEN": Condition(
        "{id} is already bound to {other} and cannot be bound to {key}.",
        "Bind a different id, or keep {other}. Two keys for one resource would overwrite each other's changes.",
    ),
    "DEPLOY_BIND_MISSING": Condition(
        "The workspace has no object in {kind} with the id {id}.", "Look up the id in the workspace."
    ),
    "DEPLOY_REFERENCE_UNRESOLVED": Condition(
        "{key} refers to {reference}, which has no value yet.",
        "Deploy the referenced resource first, or correct the reference.",
    ),
    "DEPLOY_QUEUE_STALE": Condition(
        "The queued deployment of target {target} no longer matches the current plan. It was not applied.",
        "Review `sluice bundle plan`, then queue the deployment again with `sluice bundle deploy --queue`.",
    ),
    "DEPLOY_QUEUE_EMPTY": Condition(
        "Target {target} has no queued deployment.", "Queue a deployment with `sluice bundle deploy --queue`."
    ),
    "DEPLOY_OVERRIDE_INVALID": Condition(
        "`--override` {text!r} does not contain a gateway and a reason.",
        "Write a gateway of the bundle and a reason: `--override pipelines.gateway=REASON`.",
    ),
    "DEPLOY_WRITE_TAGS_INVALID": Condition(
        "`--write-tags` {text!r} does not contain a gateway and a reason.",
        "Write a gateway of the bundle, or a job that runs one, and a reason: `--write-tags pipelines.gateway=REASON`.",
    ),
    "DEPLOY_KEY_UNKNOWN": Condition(
        "`{option}` names {key}, which does not exist in target {target}.{hint}",
        "Use one of its resources: {known}.",
    ),
    "DEPLOY_OVERRIDE_NO_GATEWAY": Condition(
        "`{option}` names {key}, which is neither a gateway of target {target} nor a job that runs one.",
        "Use a gateway: {gateways}. Other resources do not need `{option}`.",
    ),
    "DEPLOY_WAREHOUSE_MISSING": Condition(
        "No SQL warehouse is configured, but {purpose}.",
        "Set DATABRICKS_WAREHOUSE_ID, or `warehouse_id` in the profile, to the id of a SQL warehouse.",
    ),
    "DEPLOY_OPTION_INVALID": Condition("{option} {text!r} is not valid.", "Write {expected}."),
    "DEPLOY_STATEMENT_FAILED": Condition(
        "A SQL statement failed in the workspace: {cause}", "Check the SQL warehouse, the table name and its grants."
    ),
    "REMOTE_PIPELINE_MISSING": Condition(
        "{key} is not deployed to target {target}.", "Deploy it first: `sluice bundle deploy --target {target}`."
    ),
    "REMOTE_UPDATE_SILENT": Condition(
        "Update {update} has not ended after {seconds} seconds.",
        "Check the update in the workspace; it may still be running.",
    ),
}
