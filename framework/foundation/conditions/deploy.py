"""Conditions of deploys: the workspace, state, lock, files, the guard."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "WORKSPACE_NOT_CONFIGURED": Condition(
        "No workspace can be reached: {cause}.",
        "Set DATABRICKS_HOST and DATABRICKS_TOKEN, or name a profile of your configuration file with --profile.",
    ),
    "WORKSPACE_OTHER_HOST": Condition(
        "Target {target} is for the workspace {wanted}, and this is {actual}.",
        "Name a profile of that workspace with --profile, or set DATABRICKS_HOST and DATABRICKS_TOKEN.",
    ),
    "WORKSPACE_UNAUTHENTICATED": Condition(
        "The workspace did not let us in ({call}).",
        "The token is wrong or has expired: sign in again, then deploy again; it goes on where it stopped.",
    ),
    "WORKSPACE_FORBIDDEN": Condition(
        "The workspace does not permit {call}.", "Ask for the permission, or deploy as somebody who has it."
    ),
    "WORKSPACE_CALL_FAILED": Condition(
        "The workspace refused {call}: {cause}", "Correct the cause and deploy again; it goes on where it stopped."
    ),
    "WORKSPACE_ANSWER_LOST": Condition(
        "The answer to {method} {path} was lost; it may have taken effect.",
        "Deploy again: what took effect is found, and the rest is done.",
    ),
    "DEPLOY_LOCKED": Condition(
        "{user} has been deploying since {since}; the lock is {path}.",
        "Wait until that deploy is over; when it is known to be dead, use `--force-lock`.",
    ),
    "DEPLOY_LOCK_LOST": Condition(
        "The lock {path} is no longer ours; {user} has it.",
        "Nothing was written since. Let the other deploy end, then deploy again.",
    ),
    "DEPLOY_STATE_INVALID": Condition(
        "The deploy's state at {path} can't be read: {cause}.",
        "Restore the file from a copy, or move it away and adopt each resource with `sluice bundle bind`.",
    ),
    "DEPLOY_FILE_OUTSIDE": Condition(
        "{path} lies outside {root}.", "Only files below the bundle's root are uploaded; copy it there, or exclude it."
    ),
    "DEPLOY_RESOURCE_EXISTS": Condition(
        "{key}: there already is one of {kind} named {name!r}, which this bundle did not make.",
        "Adopt it with `sluice bundle bind {key} ID`, or choose another name.",
    ),
    "DEPLOY_RESOURCE_UNKNOWN": Condition(
        "There is no resource {key} in target {target}.{hint}", "`sluice bundle plan` lists them."
    ),
    "DEPLOY_NOT_BOUND": Condition(
        "{key} has no record of a deploy to target {target}, so that nothing of it can be accepted.",
        "Adopt it first with `sluice bundle bind {key} ID`.",
    ),
    "GUARD_STATE_UNKNOWN": Condition(
        "Which gateways a deploy would reach is not known: {cause}.",
        "Hold the deploy. Name each gateway, and each job that runs one, with `sluice bundle bind KEY ID`, or correct "
        "the cause.",
    ),
    "DEPLOY_BIND_TAKEN": Condition(
        "{id} is {other} already, so that {key} can't be bound to it.",
        "Bind another id, or keep the resource under {other}: two keys of one resource would undo each other.",
    ),
    "DEPLOY_BIND_MISSING": Condition("There is none of {kind} with id {id}.", "Look up the id in the workspace."),
    "DEPLOY_REFERENCE_UNRESOLVED": Condition(
        "{key} refers to {reference}, which has no value yet.",
        "Deploy the resource that it names, or correct the reference.",
    ),
    "DEPLOY_QUEUE_STALE": Condition(
        "The queued deploy of {target} is no longer the same plan, so it was not applied.",
        "Look at `sluice bundle plan`, then queue it again with `sluice bundle deploy --queue`.",
    ),
    "DEPLOY_QUEUE_EMPTY": Condition(
        "Nothing is queued for target {target}.", "Queue a deploy with `sluice bundle deploy --queue`."
    ),
    "DEPLOY_OVERRIDE_INVALID": Condition(
        "{text!r} overrides nothing.",
        "Name a gateway of the bundle and a reason: `--override pipelines.gateway=REASON`.",
    ),
    "DEPLOY_WRITE_TAGS_INVALID": Condition(
        "{text!r} names no gateway and reason.",
        "Name a gateway of the bundle, or a job that runs one, and a reason: `--write-tags pipelines.gateway=REASON`.",
    ),
    "DEPLOY_KEY_UNKNOWN": Condition(
        "`{option}` names {key}, and target {target} has no such resource.{hint}", "Name one of its resources: {known}."
    ),
    "DEPLOY_OVERRIDE_NO_GATEWAY": Condition(
        "`{option}` names {key}, which is no gateway of target {target}, and no job that runs one.",
        "Name a gateway: {gateways}. All other resources need no `{option}`.",
    ),
    "DEPLOY_WAREHOUSE_MISSING": Condition(
        "No SQL warehouse is configured, and {purpose}.",
        "Set DATABRICKS_WAREHOUSE_ID, or `warehouse_id` in the profile, to the id of a SQL warehouse.",
    ),
    "DEPLOY_OPTION_INVALID": Condition("{option} {text!r} can't be read.", "Give {expected}."),
    "DEPLOY_STATEMENT_FAILED": Condition(
        "The workspace could not run a statement: {cause}", "Check the warehouse, the table's name and its grants."
    ),
    "REMOTE_PIPELINE_MISSING": Condition(
        "{key} is not deployed to target {target}.", "Deploy it first: `sluice bundle deploy --target {target}`."
    ),
    "REMOTE_UPDATE_SILENT": Condition(
        "Update {update} has not ended after {seconds} seconds.",
        "It may still be running: look at it in the workspace.",
    ),
}
