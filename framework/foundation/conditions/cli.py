"""Conditions of the command line and the demo."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "INTERNAL_ERROR": Condition(
        "An unexpected error occurred: {error}.",
        "This is a bug in Sluice. Run the same command with -v, and report the output.",
    ),
    "SPARK_FAILED": Condition(
        "Spark failed outside of any flow: {cause}",
        "Check the tables, the storage and the settings that the message names. -v prints Spark's complete output.",
    ),
    "SYSTEM_CALL_FAILED": Condition(
        "A system call failed: {cause}.", "Check the file or folder that the message names."
    ),
    "PRUNE_NOT_CONFIRMED": Condition(
        "`sluice prune` asks for confirmation before it drops tables, but standard input is not a terminal.",
        "Review the tables with `sluice plan`, then run `sluice prune --yes`.",
    ),
    "PRUNE_LIBRARY_EMPTY": Condition(
        "The library pattern {pattern!r} matches no file, so the tables it used to declare would be dropped. Nothing "
        "was dropped.",
        "Correct the pattern, or remove it from `libraries`.",
    ),
    "PRUNE_NOTHING_DECLARED": Condition(
        "Pipeline {pipeline} declares no dataset, so all its tables would be dropped. Nothing was dropped.",
        "Check `libraries` or `modules`. To remove the whole pipeline, delete its storage.",
    ),
    "PRUNE_SOURCES_UNREAD": Condition(
        "A source of pipeline {pipeline} can't be read, so which tables are in use is unknown. Nothing was dropped.",
        "Run `sluice validate`, which names the source and what to do, and then prune again.",
    ),
    "REFRESH_NAMES_MISSING": Condition(
        "{option} contains an empty name.", "Write the names of datasets or flows, separated by commas without spaces."
    ),
    "EVENT_DATASET_NOT_FOUND": Condition(
        "The event log has no events of dataset {dataset}.{hint}",
        "Correct the name. `sluice events` without --dataset prints all events.",
    ),
    "EVENT_NOT_FOUND": Condition(
        "The event log has no event with the id {event!r}.{log}",
        "Take the id of an event of `sluice events -o json`. Events of old updates are deleted.",
    ),
    "QUERY_INVALID": Condition(
        "Spark cannot analyze the query: {cause}", "Correct the query. `sluice validate` lists the datasets."
    ),
    "QUERY_FAILED": Condition("The query failed: {cause}", "Correct the query or the data that it reads."),
    "PARAMETER_INVALID": Condition("{text!r} is not a valid parameter.", "Write --param KEY=VALUE."),
    "PROJECT_NAME_INVALID": Condition(
        "{name!r} is not a valid project name.",
        "Use letters, digits, `_` and `-`, and start with a letter, for example `bookings`.",
    ),
    "PROJECT_ALREADY_EXISTS": Condition(
        "{path} already exists. Nothing was written.", "Choose a different name, or move the existing folder."
    ),
    "REPORT_NOT_WRITABLE": Condition(
        "The report {path} can't be written: {cause}.", "Name a file in a folder that the current user can write."
    ),
    "ADOPTION_FOLDER_MISSING": Condition("There is no folder {path}.", "Correct the path."),
    "ADOPTION_NOTHING_FOUND": Condition(
        "{path} has no pipeline: no pipeline.yml, no bundle whose pipelines have libraries, and no module, notebook or "
        "SQL file that declares a dataset.",
        "Name the folder that has them.",
    ),
    "ADOPTION_INTERFACE_NOT_IMPORTED": Condition(
        "{path} declares datasets with a module that it does not import, so that it would fail. No spec names it.",
        "Write `import dlt` or `from pyspark import pipelines as dp` in it, and add it to `libraries`, if the pipeline "
        "needs it.",
    ),
    "ADOPTION_MODULE_UNREADABLE": Condition(
        "{path} is not valid Python: {cause}.",
        "Look through it yourself: no entry was made for what it needs. `sluice validate` reports it if the pipeline "
        "runs it.",
    ),
    "ADOPTION_TARGET_CHOSEN": Condition(
        "The bundle has no default target. Its pipelines were read for {target!r}.",
        "For another target, delete the written specs and run `sluice bundle spec --target NAME`.",
    ),
    "ADOPTION_VARIABLES_NAMED": Condition(
        "{path} has variables that only a workspace or a command gives a value: {names}. The written specs have the "
        "names of these variables in place of their values.",
        "Names of catalogs and schemas can stay so here. Change other values in the written specs, or delete them, set "
        "BUNDLE_VAR_<name> and run `sluice adopt` again.",
    ),
    "ADOPTION_SEVERAL_PIPELINES": Condition(
        "{count} files declare the same datasets ({names}), so that they are not of one pipeline: each folder, and "
        "each file of a folder whose files do so, got a spec of its own.",
        "Where one pipeline has files of several of these specs, list them in one spec and delete the others.",
    ),
    "CHECKPOINT_FLOW_NOT_FOUND": Condition(
        "Flow {flow} has no checkpoints in {storage}.{hint}",
        "Correct the name. `sluice checkpoints list` lists the flows that have checkpoints.",
    ),
    "CHECKPOINT_FLOW_AMBIGUOUS": Condition(
        "{flow} matches several flows that have checkpoints: {flows}.",
        "Write the full name of one flow. If flows of several datasets have it, add `--target DATASET`.",
    ),
    "GENERATION_NOT_KEPT": Condition(
        "Flow {flow} has no generation{wanted} to roll back to. Kept generations: {kept}. Those from before a rewind, "
        "before a full refresh without the flow, or before the table was deleted, do not count: rows that they wrote "
        "have left the table.",
        "Choose a kept generation, or reset the flow. `sluice checkpoints list` lists all generations.",
    ),
    "GENERATION_BEFORE_REFRESH": Condition(
        "Generation {number} of flow {flow} is from before a full refresh of {dataset}, which has read what comes "
        "after that generation. The flow appends, so that these rows would be twice in the table.",
        "Go on with the current generation. To have the table of that time back, with its checkpoint: "
        "`sluice rewind --to TIME --dry-run`. To read a part of the source again: "
        "`sluice run --reset-checkpoint {flow} --from START`. To roll back all the same: add `--allow-repeats`.",
    ),
    "GENERATION_READ_SINCE": Condition(
        "Generation {number} of flow {flow} continues where it ended, and {dataset} may have rows that generation "
        "{since} has read since then. The flow appends, so that what both read would be twice in the table.",
        "Go on with the current generation.{rewind} If rows may repeat: "
        "`sluice checkpoints rollback {flow} --target {dataset} --to {number} --allow-repeats`.",
    ),
    "DEMO_DATA_MISSING": Condition(
        "The package {package}, which contains the data of the demo, is not installed.",
        "Install it: pip install 'sluice-spark[demo]'.",
    ),
    "DEMO_MONTHS_INVALID": Condition(
        "{months} is not a valid number of months.", "Use 1 to 12, or --all for the whole year."
    ),
    "DEMO_UPDATE_FAILED": Condition(
        "The first update of the database example ended before it could be killed. The end of {log}:\n{lines}",
        "Correct the cause, or leave the example out with --no-database.",
    ),
    "DEMO_FOLDER_TAKEN": Condition(
        "The folder {folder} {content}.",
        "Choose a different folder with --folder, or delete this one, and run the demo again.",
    ),
}
