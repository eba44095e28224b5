"""Conditions of bundles: loading, resolving, rendering, lint."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "BUNDLE_FILE_UNREADABLE": Condition(
        "{path} can't be read: {cause}.", "Correct the path, or begin with `sluice init`."
    ),
    "BUNDLE_INVALID_YAML": Condition("{path} is no YAML that a bundle can be read from: {cause}.", "Correct it."),
    "BUNDLE_INCLUDE_MATCHES_NOTHING": Condition("`include` names {pattern}, and there is no such file.", "Correct it."),
    "BUNDLE_INCLUDE_ABSOLUTE": Condition(
        "`include` names {pattern!r}, which is not a relative path.", "Write a path relative to the bundle's root."
    ),
    "BUNDLE_INCLUDE_NOT_YAML": Condition(
        "`include` names {pattern!r}, which matches {path}, and that is not a YAML or JSON file.",
        "Correct the pattern. `sync.include` names files to upload.",
    ),
    "BUNDLE_INCLUDE_NESTED": Condition(
        "`include` stands in an included file, where it has no effect.", "Move it to `databricks.yml`."
    ),
    "BUNDLE_MERGE_KINDS": Condition(
        "The value is {actual}, and {other} has {expected} for the same setting: they can't be merged.",
        "Write both as the same kind of value, or only one of them. A reference like `${{var.tasks}}` counts as a text "
        "here: targets are merged before references are resolved.",
    ),
    "BUNDLE_RESOURCE_EMPTY": Condition(
        "{key} has no settings.", "Write its settings below it, or remove it; `{{}}` stands for none."
    ),
    "BUNDLE_RESOURCE_KEY": Condition(
        "The key {key} contains a reference, and keys are not resolved.", "Write a fixed key."
    ),
    "BUNDLE_UNKNOWN_KEY": Condition("`{key}` is no key of {where}.{hint}", "Correct or remove it."),
    "BUNDLE_FIELD_TYPE": Condition("`{field}` is {actual} and should be {expected}.", "Correct its value."),
    "BUNDLE_FIELD_MISSING": Condition("`{field}` is missing.", "Add it."),
    "BUNDLE_FIELD_RANGE": Condition("`{field}` is {value!r} and should be {expected}.", "Correct its value."),
    "BUNDLE_FIELD_UNKNOWN": Condition(
        "`{field}` is no field of {where}.{hint} It is not deployed.",
        "Correct or remove it. If the service has the field, install a newer `databricks-sdk`, which knows it.",
    ),
    "BUNDLE_FIELD_CHOICE": Condition(
        "`{field}` is {value!r}, which is not a known value.",
        "Write one of {known}. If the service has the value, install a newer `databricks-sdk`, which knows it.",
    ),
    "BUNDLE_FIELD_MANAGED": Condition("`{field}` is set by the tool that deploys.", "Remove it."),
    "BUNDLE_GRANT_WITHOUT_PRINCIPAL": Condition("`{field}` has no principal.", "Write who gets the privileges."),
    "BUNDLE_KIND_NOT_DEPLOYED": Condition(
        "{key} is in this target, and Sluice does not deploy {kind}.",
        "Declare it in a target of its own, and deploy that with Databricks' own command line.",
    ),
    "BUNDLE_SPEC_COLUMNS": Condition(
        "Table {table} has both `include_columns` and `exclude_columns`.", "Keep one of the two."
    ),
    "BUNDLE_SPEC_TABLE_UNKNOWN": Condition(
        "There is no table {name!r} in the spec.{hint}", "Name one of its `tables`, without its schema."
    ),
    "BUNDLE_SPEC_TABLE_TWICE": Condition(
        "Two tables of the spec would both arrive as {name!r}.", "Ingest one of them by a spec of its own."
    ),
    "BUNDLE_SPEC_TARGET_TWICE": Condition(
        "Target {target!r} belongs to {other} already.",
        "Give each spec targets of its own: one target is deployed under one lock, with one state.",
    ),
    "BUNDLE_TEMPLATE_MISSING": Condition(
        "There is no template {name!r} in {folder}.", "Correct the name; templates outside that folder are not read."
    ),
    "BUNDLE_TEMPLATE_INVALID": Condition("{path} can't be rendered: {cause}.", "Correct the template, or its spec."),
    "BUNDLE_RENDERED_INVALID": Condition(
        "{template} makes no bundle file of {spec}: {cause}.",
        "Correct the template; the line is that of what it would have written to {path}.",
    ),
    "BUNDLE_RENDERED_FOREIGN": Condition(
        "{path} is not from `sluice bundle render`, and would be overwritten.",
        "Move it away, or give the spec another name.",
    ),
    "BUNDLE_RENDERED_OUTSIDE": Condition(
        "{path} is a link, or leads out of the bundle's root.", "Replace it by a folder or file of the bundle itself."
    ),
    "BUNDLE_RENDERED_UNWRITABLE": Condition("{path} can't be written: {cause}.", "Correct that; what was there stays."),
    "BUNDLE_DUPLICATE_RESOURCE": Condition(
        "{key} is declared at {other} already.", "Give one of the two another key; a target may change a resource."
    ),
    "BUNDLE_TARGET_UNKNOWN": Condition("There is no target {target!r}.{hint}", "Choose one of {known}."),
    "BUNDLE_TARGET_AMBIGUOUS": Condition(
        "No target was named, and {reason}.", "Name one with `--target`: {known}; or give one `default: true`."
    ),
    "BUNDLE_MODE_UNKNOWN": Condition("{mode!r} is no mode.", "Write `development` or `production`, or leave it out."),
    "BUNDLE_VARIABLE_UNKNOWN": Condition("There is no variable {name!r}.{hint}", "Declare it under `variables`."),
    "BUNDLE_VARIABLE_WITHOUT_VALUE": Condition(
        "Variable {name!r} has no value.", "Give it one with `--var {name}=...`, BUNDLE_VAR_{name}, or a `default`."
    ),
    "BUNDLE_VARIABLE_TWICE": Condition("Variable {name!r} has two values by `--var`.", "Give it one."),
    "BUNDLE_VARIABLE_FIXED": Condition(
        "Variable {name!r} has a `value` in its declaration, which --var can't override.", "Write it as `default`."
    ),
    "BUNDLE_VARIABLE_NOT_SIMPLE": Condition(
        "Variable {name!r} is complex; {origin} can only give it a text.",
        "Give it a value in `.databricks/bundle/<target>/variable-overrides.json`, or a `default`.",
    ),
    "BUNDLE_VARIABLE_TYPE": Condition(
        "Variable {name!r} is {actual} in `variable-overrides.json`, which its declared type does not allow.",
        "A variable with `type: complex` takes a mapping or a list, any other one a scalar.",
    ),
    "BUNDLE_VARIABLE_OVERRIDES_INVALID": Condition("{path} can't be read: {cause}.", "Correct it, or remove it."),
    "BUNDLE_LOOKUP_INVALID": Condition(
        "The lookup of variable {name!r} names {count} things.", "Name one, as in `lookup: {{cluster: NAME}}`."
    ),
    "BUNDLE_LOOKUP_OFFLINE": Condition(
        "Variable {name!r} looks up {kind} {wanted!r}, and no workspace is at hand.",
        "Give it a value with `--var {name}=...`, or do this with a workspace.",
    ),
    "BUNDLE_LOOKUP_WITH_DEFAULT": Condition(
        "Variable {name!r} has both a `lookup` and a `default`.", "Remove one; a target may have the other."
    ),
    "BUNDLE_LOOKUP_NOTHING": Condition(
        "Variable {name!r} looks up {kind} {wanted!r}, and the workspace has none, or shows us none.",
        "Correct the name, or ask for the permission to see it.",
    ),
    "BUNDLE_LOOKUP_AMBIGUOUS": Condition(
        "Variable {name!r} looks up {kind} {wanted!r}, and there are {count}: {ids}.",
        "Give the right one with `--var {name}=ID`, or rename the others.",
    ),
    "BUNDLE_REFERENCE_UNKNOWN": Condition("{reference} refers to nothing.{hint}", "Correct it."),
    "BUNDLE_REFERENCE_FOREIGN": Condition(
        "{reference} is no reference of bundles, and is deployed as text.",
        "Nothing, if a shell or another tool reads it; else write `${{var.NAME}}`, `${{bundle.NAME}}` or the like.",
    ),
    "BUNDLE_REFERENCE_CYCLE": Condition("References go in a circle: {path}.", "Break the circle."),
    "BUNDLE_REFERENCE_NOT_TEXT": Condition(
        "{reference} is {actual} and can't stand inside a text.", "Let it be the whole value."
    ),
    "BUNDLE_REFERENCE_TOO_LARGE": Condition(
        "The values that references stand for grow past {limit} entries.", "Use fewer or smaller complex variables."
    ),
    "BUNDLE_REFERENCE_TOO_DEEP": Condition(
        "References lead from one value to the next too many times.", "Use fewer variables that refer to others."
    ),
    "BUNDLE_USER_UNKNOWN": Condition(
        "{reference} needs to know who deploys, and nobody is signed in.", "Sign in to a workspace, or name the user."
    ),
    "BUNDLE_PERMISSION_INVALID": Condition("A permission can't be given: {cause}.", "Write {expected}."),
    "BUNDLE_PERMISSION_TWICE": Condition(
        "{key} gives {principal} a permission, which counts; that of the bundle's `permissions` at {other} does not.",
        "Remove one of the two.",
    ),
    "BUNDLE_RUN_AS_INVALID": Condition(
        "`run_as` names {count} identities.", "Name one, by `user_name` or `service_principal_name`."
    ),
    "BUNDLE_PATH_OUTSIDE": Condition(
        "{path} leads out of the bundle's root {root}.", "Copy what it names below the root; only that is uploaded."
    ),
    "BUNDLE_LINK_OUTSIDE": Condition(
        "{path} is a link to {target}, outside of the bundle's root.",
        "Replace it by a copy, or exclude it under `sync.exclude`: nothing outside of the root is read or uploaded.",
    ),
    "BUNDLE_PATH_LINK": Condition(
        "{path} leads through the link {link}, and links are not uploaded.",
        "Name the file itself, or replace the link.",
    ),
    "BUNDLE_PATH_MISSING": Condition(
        "{path} names {inside}, which is not there.", "Correct the path; it counts from the file that it stands in."
    ),
    "BUNDLE_PATH_SHARED": Condition(
        "`{field}` is {path}, and target {target} is of `mode: development`: users would deploy over each other.",
        "Begin the path with `~/`, or put `${{workspace.current_user.short_name}}` into it.",
    ),
    "BUNDLE_VOLUME_PATH": Condition(
        "`{field}` is {path}, and only `workspace.artifact_path` may lie in a volume.", "Write a path of the workspace."
    ),
    "BUNDLE_NOT_A_NOTEBOOK": Condition(
        "{path} names {inside}, which is {actual}, and {expected} belongs here.", "Correct the path, or the field."
    ),
    "BUNDLE_SYNC_OUTSIDE": Condition(
        "`sync` names {path}, which leads out of the bundle's root.", "Only what lies below the root is uploaded."
    ),
    "BUNDLE_PAUSE_STATUS_UNKNOWN": Condition(
        "{status!r} is no status of schedules.", "Write `PAUSED` or `UNPAUSED`, or leave it out."
    ),
    "BUNDLE_PREFIX_SHARED": Condition(
        "`presets.name_prefix` is {prefix!r}, and does not name who deploys: users in `mode: development` would deploy "
        "over each other.",
        "Put `${{workspace.current_user.short_name}}` into it, or leave it out.",
    ),
    "BUNDLE_SETTING_UNSUPPORTED": Condition(
        "Sluice does not do `{field}`.", "Remove it, or deploy this bundle with Databricks' own command line."
    ),
    "BUNDLE_GIT_BRANCH": Condition(
        "Target {target} is deployed from branch {wanted!r}, and {actual!r} is checked out.",
        "Check out {wanted!r}, or change the target's `git.branch`.",
    ),
    "BUNDLE_BUILD_FAILED": Condition(
        "The build of artifact {name!r} failed: {cause}", "Mend the build; nothing was deployed."
    ),
    "BUNDLE_SHELL_MISSING": Condition(
        "There is no {shell} to run the build with.", "Install it, or name another `executable`."
    ),
    "BUNDLE_PACKAGE_MISSING": Condition(
        "{key} needs {package}, and there is no such file.",
        "Build it first, or declare it under `artifacts` with its `build`.",
    ),
    "BUNDLE_RESOURCE_ELSEWHERE": Condition(
        "{key} refers to {reference}, which target {target} does not have; {others} has it.",
        "Refer to it by its table's name, or by a variable with `lookup`: then no deploy of this target can touch it.",
    ),
    "BUNDLE_RESOURCE_UNKNOWN": Condition(
        "{key} refers to {reference}, which the bundle does not have.{hint}", "Correct the reference."
    ),
    "BUNDLE_RESOURCE_FIELD_UNKNOWN": Condition(
        "{key} refers to {reference}, and {other} has no field `{field}`.{hint}",
        "Write the field at {other}, or refer to one of its fields: {known}.",
    ),
    "BUNDLE_RESOURCE_REFERENCE_MISPLACED": Condition(
        "`{field}` refers to {reference}, and is read before any resource is deployed.",
        "Write the value itself, or a variable. Only resources can refer to resources.",
    ),
    "BUNDLE_DEVELOPMENT_IN_PRODUCTION": Condition(
        "{key} has `development: true`, and target {target} is of `mode: production`.", "Remove one of the two."
    ),
    "BUNDLE_PRODUCTION_PATH": Condition(
        "Target {target} is of `mode: production` without a `workspace.root_path`: each user would deploy a copy.",
        "Write a `root_path` in the target that is the same for all who deploy.",
    ),
    "BUNDLE_GATEWAY_IN_DEVELOPMENT": Condition(
        "{key} is a gateway, and target {target} is of `mode: development` or pauses triggers: it would silently stop "
        "being continuous.",
        "Give ingestion a target of its own without that mode and preset.",
    ),
    "BUNDLE_GATEWAY_NOT_APART": Condition(
        "{key} is a gateway, and target {target} deploys {others} too: each deploy of those has to decide about it.",
        "Declare gateways with their ingestion under a target of its own: `sluice bundle render` makes such a target.",
    ),
    "BUNDLE_GATEWAY_CHANGES": Condition(
        "`{field}` of gateway {key} comes from {source}: each deploy would change it, and restart the gateway.",
        "Write a fixed value. `sluice bundle deploy --table` tells who deployed which commit, and when.",
    ),
    "BUNDLE_GATEWAY_TAG_CHANGES": Condition(
        "`{field}` of gateway {key} comes from {source}: each deploy changes it, and other tools than this one would "
        "restart the gateway for it.",
        "Take it away, or pin it by a fixed value at the gateway; `sluice bundle deploy --table` tells who deployed "
        "which commit, and when.",
    ),
    "BUNDLE_GATEWAY_TAG_UNPINNED": Condition(
        "The preset tag {tag!r} reaches gateway {key}: whoever changes it changes the gateway.",
        "Write the tag with a fixed value at the gateway; a preset only fills what is missing or empty.",
    ),
    "BUNDLE_DESTROY_NOT_PREVENTED": Condition(
        "{key} holds or moves ingested data, and does not say whether it may be destroyed.",
        "Write `lifecycle: {{prevent_destroy: true}}`, or `false` where it may.",
    ),
    "BUNDLE_SPELLING": Condition(
        "The service spells `{field}` of {key} {expected!r}, and here it is {value!r}: a difference at each deploy.",
        "Write {expected!r}.",
    ),
    "BUNDLE_LINT": Condition(
        "Target {target} was not looked at any further: the lint found {count} error{plural}, told above.",
        "Correct what is told above.",
    ),
}
