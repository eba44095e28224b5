"""Conditions of bundles: loading, resolving, rendering, lint."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "BUNDLE_FILE_UNREADABLE": Condition(
        "{path} cannot be read: {cause}.", "Correct the path, or create a project with `sluice init`."
    ),
    "BUNDLE_INVALID_YAML": Condition("{path} is not valid YAML for a bundle: {cause}.", "Correct the file."),
    "BUNDLE_PIPELINE_UNKNOWN": Condition(
        "Target {target} has {found}.",
        "Name one of the pipelines with libraries ({pipelines}), or choose another target with `--target`.",
    ),
    "BUNDLE_PIPELINE_WITHOUT_LIBRARIES": Condition(
        "Pipeline {key} has no `libraries`: Databricks runs it without code of yours.",
        "Declare copies of a database with `dp.ingest_database` in a pipeline of Sluice's own.",
    ),
    "BUNDLE_LIBRARY_ELSEWHERE": Condition(
        "Pipeline {key} has the library {library}, which is not a file of the bundle.",
        "Copy it into the bundle, or write a pipeline.yml without it.",
    ),
    "BUNDLE_SPEC_EXISTS": Condition(
        "{path} exists already.", "Run the pipeline with it, delete it, or name another file with `--file`."
    ),
    "BUNDLE_INCLUDE_MATCHES_NOTHING": Condition(
        "`include` names the file {pattern}, which does not exist.", "Correct the path."
    ),
    "BUNDLE_INCLUDE_EMPTY": Condition(
        "The `include` pattern {pattern!r} matches no file.",
        "Correct the pattern, or remove it. `**` matches within one folder, as `*` does.",
    ),
    "BUNDLE_INCLUDE_REFERENCE": Condition(
        "`include` contains {pattern!r}. Files are included before variables have values, so that the reference would "
        "be a part of the file's name.",
        "Write the path without a reference. What differs between targets can be set in a target of the included file.",
    ),
    "BUNDLE_INCLUDE_ABSOLUTE": Condition(
        "`include` contains {pattern!r}, which is not a relative path.",
        "Write the path relative to the bundle's root folder.",
    ),
    "BUNDLE_INCLUDE_NOT_YAML": Condition(
        "The `include` pattern {pattern!r} matches {path}, which is not a YAML or JSON file.",
        "Correct the pattern. To upload other files, use `sync.include`.",
    ),
    "BUNDLE_INCLUDE_NESTED": Condition(
        "`include` is set in an included file and has no effect there.", "Move it to `databricks.yml`."
    ),
    "BUNDLE_MERGE_KINDS": Condition(
        "The value is {actual}, but {other} sets {expected} for the same field; the two cannot be merged.",
        "Use the same type in both places, or set the field in only one. Targets are merged before references are "
        "resolved, so a reference such as `${{var.tasks}}` counts as a string.",
    ),
    "BUNDLE_RESOURCE_EMPTY": Condition(
        "Resource {key} has no settings.",
        "Add its settings, write `{{}}` for a resource without settings, or remove it.",
    ),
    "BUNDLE_RESOURCE_KEY": Condition(
        "The resource key {key} contains a reference; references in keys are not resolved.", "Use a literal key."
    ),
    "BUNDLE_UNKNOWN_KEY": Condition("`{key}` is not a valid key of {where}.{hint}", "Correct or remove the key."),
    "BUNDLE_FIELD_TYPE": Condition("`{field}` is {actual}; expected {expected}.", "Correct the value."),
    "BUNDLE_FIELD_MISSING": Condition("The required field `{field}` is missing.", "Add the field."),
    "BUNDLE_FIELD_RANGE": Condition("`{field}` is {value!r}; expected {expected}.", "Correct the value."),
    "BUNDLE_FIELD_UNKNOWN": Condition(
        "`{field}` is not a known field of {where} and is not deployed.{hint}",
        "Correct or remove the field. If the service supports it, upgrade `databricks-sdk`.",
    ),
    "BUNDLE_FIELD_CHOICE": Condition(
        "`{field}` is {value!r}, which is not a known value.",
        "Use one of {known}. If the service supports the value, upgrade `databricks-sdk`.",
    ),
    "BUNDLE_FIELD_MANAGED": Condition("`{field}` is managed by the deployment and cannot be set.", "Remove the field."),
    "BUNDLE_GRANT_WITHOUT_PRINCIPAL": Condition(
        "`{field}` has no `principal`.", "Add the principal that receives the privileges."
    ),
    "BUNDLE_KIND_NOT_DEPLOYED": Condition(
        "{key} is part of this target, but Sluice does not deploy {kind}.",
        "Move it to a separate target, and deploy that target with the Databricks CLI.",
    ),
    "BUNDLE_SPEC_COLUMNS": Condition(
        "Table {table} sets both `include_columns` and `exclude_columns`.", "Remove one of the two."
    ),
    "BUNDLE_SPEC_TABLE_UNKNOWN": Condition(
        "The spec has no table {name!r}.{hint}", "Use the name of one of its `tables`, without the schema."
    ),
    "BUNDLE_SPEC_TABLE_TWICE": Condition(
        "Two tables of the spec have the same destination name {name!r}.", "Move one of them to a separate spec."
    ),
    "BUNDLE_SPEC_TARGET_TWICE": Condition(
        "Target {target!r} is already used by {other}.",
        "Use separate targets for each spec: a target has one deployment lock and one deployment state.",
    ),
    "BUNDLE_TEMPLATE_MISSING": Condition(
        "Template {name!r} does not exist in {folder}.",
        "Correct the name. Templates are only loaded from that folder.",
    ),
    "BUNDLE_TEMPLATE_INVALID": Condition("{path} cannot be rendered: {cause}.", "Correct the template or its spec."),
    "BUNDLE_RENDERED_INVALID": Condition(
        "{template} renders {spec} to an invalid bundle file: {cause}.",
        "Correct the template. The line number refers to the rendered output {path}.",
    ),
    "BUNDLE_RENDERED_FOREIGN": Condition(
        "{path} exists and was not created by `sluice bundle render`; rendering would overwrite it.",
        "Move the file, or rename the spec.",
    ),
    "BUNDLE_RENDERED_OUTSIDE": Condition(
        "{path} is a symbolic link or lies outside the bundle's root folder.",
        "Replace it with a regular file or folder inside the bundle.",
    ),
    "BUNDLE_RENDERED_UNWRITABLE": Condition(
        "{path} cannot be written: {cause}.", "Correct the cause and render again. The existing file is unchanged."
    ),
    "BUNDLE_DUPLICATE_RESOURCE": Condition(
        "Resource {key} is already declared at {other}.",
        "Use a different key. To change a resource for one target, declare it under that target.",
    ),
    "BUNDLE_TARGET_UNKNOWN": Condition("Target {target!r} does not exist.{hint}", "Use one of {known}."),
    "BUNDLE_TARGET_AMBIGUOUS": Condition(
        "No target is selected, and {reason}.",
        "Select a target with `--target` ({known}), or set `default: true` in exactly one target.",
    ),
    "BUNDLE_MODE_UNKNOWN": Condition(
        "{mode!r} is not a valid mode.", "Use `development` or `production`, or remove the field."
    ),
    "BUNDLE_VARIABLE_UNKNOWN": Condition(
        "Variable {name!r} is not declared.{hint}", "Declare it under `variables`, or correct the name."
    ),
    "BUNDLE_VARIABLE_WITHOUT_VALUE": Condition(
        "Variable {name!r} has no value.",
        "Set it with `--var {name}=...` or the environment variable BUNDLE_VAR_{name}, or give it a `default`.",
    ),
    "BUNDLE_VARIABLE_TWICE": Condition(
        "Variable {name!r} is set twice with `--var`.", "Remove one of the two options."
    ),
    "BUNDLE_VARIABLE_FIXED": Condition(
        "Variable {name!r} is declared with a `value`, which `--var` cannot override.",
        "Declare a `default` instead of a `value`.",
    ),
    "BUNDLE_VARIABLE_NOT_SIMPLE": Condition(
        "Variable {name!r} has `type: complex`; {origin} can only set it to a string.",
        "Set it in `.databricks/bundle/<target>/variable-overrides.json`, or give it a `default`.",
    ),
    "BUNDLE_VARIABLE_TYPE": Condition(
        "Variable {name!r} is {actual} in `variable-overrides.json`, which does not match its declared type.",
        "Use a mapping or a list for a variable with `type: complex`, and a scalar for any other variable.",
    ),
    "BUNDLE_VARIABLE_OVERRIDES_INVALID": Condition("{path} cannot be read: {cause}.", "Correct or remove the file."),
    "BUNDLE_LOOKUP_INVALID": Condition(
        "The lookup of variable {name!r} names {count} objects; expected exactly one.",
        "Name one object, for example `lookup: {{cluster: NAME}}`.",
    ),
    "BUNDLE_LOOKUP_OFFLINE": Condition(
        "Variable {name!r} looks up the {kind} {wanted!r}, but no workspace is connected.",
        "Set the variable with `--var {name}=...`, or run the command with access to a workspace.",
    ),
    "BUNDLE_LOOKUP_WITH_DEFAULT": Condition(
        "Variable {name!r} has both a `lookup` and a `default`.",
        "Remove one of the two. A target can override the variable with the other one.",
    ),
    "BUNDLE_LOOKUP_NOTHING": Condition(
        "Variable {name!r} looks up the {kind} {wanted!r}, which does not exist in the workspace or is not visible to "
        "this user.",
        "Correct the name, or request permission to view the {kind}.",
    ),
    "BUNDLE_LOOKUP_AMBIGUOUS": Condition(
        "Variable {name!r} looks up the {kind} {wanted!r}, and {count} objects have that name: {ids}.",
        "Set the variable to one id with `--var {name}=ID`, or make the names unique.",
    ),
    "BUNDLE_REFERENCE_UNKNOWN": Condition(
        "The reference {reference} cannot be resolved.{hint}", "Correct the reference."
    ),
    "BUNDLE_REFERENCE_FOREIGN": Condition(
        "{reference} is not a bundle reference and is deployed as literal text.",
        "No action is needed if a shell or another tool resolves it. Otherwise use a bundle reference such as "
        "`${{var.NAME}}` or `${{bundle.NAME}}`.",
    ),
    "BUNDLE_REFERENCE_CYCLE": Condition(
        "The references form a cycle: {path}.", "Remove one reference to break the cycle."
    ),
    "BUNDLE_REFERENCE_NOT_TEXT": Condition(
        "{reference} is {actual} and cannot be inserted into a string.", "Use the reference as the whole value."
    ),
    "BUNDLE_REFERENCE_TOO_LARGE": Condition(
        "The references resolve to more than {limit} values.", "Use fewer or smaller complex variables."
    ),
    "BUNDLE_REFERENCE_TOO_DEEP": Condition(
        "References are nested too deeply: {cause}.", "Use fewer variables that refer to other variables."
    ),
    "BUNDLE_USER_UNKNOWN": Condition(
        "{reference} needs the name of the current user, but no user is signed in.",
        "Sign in to a workspace, or write the user name instead of the reference.",
    ),
    "BUNDLE_PERMISSION_INVALID": Condition("The permission is invalid: {cause}.", "Use {expected}."),
    "BUNDLE_PERMISSION_TWICE": Condition(
        "{key} sets a permission for {principal}, which overrides the one in the bundle's `permissions` at {other}.",
        "Remove one of the two.",
    ),
    "BUNDLE_RUN_AS_INVALID": Condition(
        "`run_as` names {count} identities; expected exactly one.",
        "Set either `user_name` or `service_principal_name`.",
    ),
    "BUNDLE_PATH_OUTSIDE": Condition(
        "{path} lies outside the bundle's root folder {root}.",
        "Copy the file or folder into the bundle. Only files below the root folder are uploaded.",
    ),
    "BUNDLE_LINK_OUTSIDE": Condition(
        "{path} is a symbolic link to {target}, which lies outside the bundle's root folder.",
        "Replace the link with a copy, or add it to `sync.exclude`. Only files below the root folder are uploaded.",
    ),
    "BUNDLE_PATH_LINK": Condition(
        "{path} goes through the symbolic link {link}; symbolic links are not uploaded.",
        "Use the path of the file itself, or replace the link with a copy.",
    ),
    "BUNDLE_PATH_MISSING": Condition(
        "{path} refers to {inside}, which does not exist.",
        "Correct the path. It is relative to the file that contains it.",
    ),
    "BUNDLE_PATH_SHARED": Condition(
        "`{field}` is {path} in target {target} with `mode: development`; users would overwrite each other's "
        "deployments.",
        "Start the path with `~/`, or include `${{workspace.current_user.short_name}}`.",
    ),
    "BUNDLE_VOLUME_PATH": Condition(
        "`{field}` is {path}, but only `workspace.artifact_path` can be in a volume.", "Use a workspace path."
    ),
    "BUNDLE_NOT_A_NOTEBOOK": Condition(
        "{path} refers to {inside}, which is {actual}; this field requires {expected}.",
        "Correct the path, or use the field for {actual}.",
    ),
    "BUNDLE_SYNC_OUTSIDE": Condition(
        "`sync` contains {path}, which lies outside the bundle's root folder.",
        "Remove the path. Only files below the root folder are uploaded.",
    ),
    "BUNDLE_PAUSE_STATUS_UNKNOWN": Condition(
        "{status!r} is not a valid pause status.", "Use `PAUSED` or `UNPAUSED`, or remove the field."
    ),
    "BUNDLE_PREFIX_SHARED": Condition(
        "`presets.name_prefix` is {prefix!r} and does not contain the user name; with `mode: development`, users would "
        "overwrite each other's deployments.",
        "Include `${{workspace.current_user.short_name}}`, or remove the preset.",
    ),
    "BUNDLE_SETTING_UNSUPPORTED": Condition(
        "Sluice does not support `{field}`.", "Remove it, or deploy this bundle with the Databricks CLI."
    ),
    "BUNDLE_GIT_BRANCH": Condition(
        "Target {target} must be deployed from branch {wanted!r}, but {actual!r} is checked out.",
        "Check out {wanted!r}, or change `git.branch` of the target.",
    ),
    "BUNDLE_BUILD_FAILED": Condition(
        "The build of artifact {name!r} failed: {cause}", "Correct the build. Nothing was deployed."
    ),
    "BUNDLE_SHELL_MISSING": Condition(
        "The shell {shell}, which runs the build, is not installed.", "Install it, or set a different `executable`."
    ),
    "BUNDLE_PACKAGE_MISSING": Condition(
        "{key} needs the package {package}, which does not exist.",
        "Build the package first, or declare it under `artifacts` with a `build` command.",
    ),
    "BUNDLE_RESOURCE_ELSEWHERE": Condition(
        "{key} refers to {reference}, which exists in target {others}, but not in target {target}.",
        "Refer to the resource by its table name, or through a variable with a `lookup`. A deployment of this target "
        "then never changes it.",
    ),
    "BUNDLE_RESOURCE_UNKNOWN": Condition(
        "{key} refers to {reference}, which the bundle does not declare.{hint}", "Correct the reference."
    ),
    "BUNDLE_RESOURCE_FIELD_UNKNOWN": Condition(
        "{key} refers to {reference}, but {other} has no field `{field}`.{hint}",
        "Add the field to {other}, or refer to one of its fields: {known}.",
    ),
    "BUNDLE_RESOURCE_REFERENCE_MISPLACED": Condition(
        "`{field}` refers to {reference}, but its value is needed before any resource is deployed.",
        "Use a literal value or a variable. Only resources can refer to resources.",
    ),
    "BUNDLE_DEVELOPMENT_IN_PRODUCTION": Condition(
        "{key} has `development: true`, but target {target} has `mode: production`.", "Remove one of the two."
    ),
    "BUNDLE_PRODUCTION_PATH": Condition(
        "Target {target} has `mode: production` but no `workspace.root_path`; each user would deploy a separate copy.",
        "Set a `root_path` in the target that does not depend on the user.",
    ),
    "BUNDLE_GATEWAY_IN_DEVELOPMENT": Condition(
        "{key} is an ingestion gateway, and target {target} has `mode: development` or pauses triggers; the gateway "
        "would no longer run continuously.",
        "Declare the gateway in a separate target without that mode and preset.",
    ),
    "BUNDLE_GATEWAY_NOT_APART": Condition(
        "{key} is an ingestion gateway, and target {target} also deploys {others}; each deployment of these resources "
        "has to check the gateway.",
        "Declare the gateway and its ingestion pipeline in a separate target. `sluice bundle render` creates such a "
        "target.",
    ),
    "BUNDLE_GATEWAY_CHANGES": Condition(
        "`{field}` of gateway {key} contains {source}; each deployment would change it and restart the gateway.",
        "Use a constant value. `sluice bundle deploy --table` records the user, commit and time of each deployment.",
    ),
    "BUNDLE_GATEWAY_TAG_CHANGES": Condition(
        "`{field}` of gateway {key} contains {source}; each deployment changes it, and deployment tools other than "
        "Sluice would restart the gateway.",
        "Remove the tag, or set it to a constant value in the gateway. `sluice bundle deploy --table` records the "
        "user, commit and time of each deployment.",
    ),
    "BUNDLE_GATEWAY_TAG_UNPINNED": Condition(
        "Gateway {key} inherits the preset tag {tag!r}; a change to the preset changes the gateway.",
        "Set the tag to a constant value in the gateway. A preset only applies to tags that are missing or empty.",
    ),
    "BUNDLE_DESTROY_NOT_PREVENTED": Condition(
        "{key} stores or transports ingested data but does not set `prevent_destroy`.",
        "Add `lifecycle: {{prevent_destroy: true}}`, or `false` if it may be destroyed.",
    ),
    "BUNDLE_SPELLING": Condition(
        "`{field}` of {key} is {value!r}, but the service stores it as {expected!r}; each deployment shows a "
        "difference.",
        "Write {expected!r}.",
    ),
    "BUNDLE_LINT": Condition(
        "The lint of target {target} found {count} error{plural}; the remaining checks were skipped.",
        "Correct the errors listed above.",
    ),
}
