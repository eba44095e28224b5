"""Conditions of the command line."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "INTERNAL_ERROR": Condition(
        "Something went wrong that Sluice did not foresee: {error}.",
        "This is a fault of Sluice, not yours: please report it with what the same command prints with -v.",
    ),
    "SPARK_FAILED": Condition(
        "Spark failed outside of any flow: {cause}",
        "Check the tables, the storage and the settings that the message names; -v shows all of it.",
    ),
    "SYSTEM_CALL_FAILED": Condition(
        "The operating system refused: {cause}.", "Check the file or folder that the message names."
    ),
    "PRUNE_NOT_CONFIRMED": Condition(
        "`sluice prune` asks before it drops tables, and standard input is no terminal.",
        "Look at the tables with `sluice plan`, then run `sluice prune --yes`.",
    ),
    "PRUNE_LIBRARY_EMPTY": Condition(
        "No file matches {pattern!r}, so tables of that code would look undeclared; nothing was dropped.",
        "Correct the pattern, or remove it from `libraries`.",
    ),
    "PRUNE_NOTHING_DECLARED": Condition(
        "The code of {pipeline} declares no dataset, so all its tables would be dropped; nothing was dropped.",
        "Check `libraries` or `modules`; to remove a whole pipeline, delete its storage.",
    ),
    "REFRESH_NAMES_MISSING": Condition(
        "{option} has an empty name.", "Name datasets or flows, separated by commas without spaces."
    ),
    "EVENT_DATASET_NOT_FOUND": Condition(
        "No event is about a dataset {dataset}.{hint}", "`sluice events` without --dataset shows all events."
    ),
    "QUERY_INVALID": Condition(
        "Spark can't make sense of the query: {cause}", "Correct it; `sluice validate` lists the datasets."
    ),
    "QUERY_FAILED": Condition("The query failed while it ran: {cause}", "Correct the query or the data it reads."),
    "PARAMETER_INVALID": Condition("{text!r} is no parameter.", "Write --param KEY=VALUE."),
    "PROJECT_NAME_INVALID": Condition(
        "{name!r} can't name a project.",
        "Use letters, digits, `_` and `-`, beginning with a letter, such as `bookings`.",
    ),
    "PROJECT_ALREADY_EXISTS": Condition(
        "{path} is there already; nothing was written.", "Choose another name, or move what is there away."
    ),
    "CHECKPOINT_FLOW_NOT_FOUND": Condition(
        "No flow {flow} has checkpoints in {storage}.{hint}", "`sluice checkpoints list` shows those that have."
    ),
    "CHECKPOINT_FLOW_AMBIGUOUS": Condition(
        "{flow} is the name of several flows that have checkpoints: {flows}.", "Give the full name of one."
    ),
    "GENERATION_NOT_KEPT": Condition(
        "Flow {flow} has no generation{wanted} that could be rolled back to; kept: {kept}.",
        "`sluice checkpoints list` shows all generations; a reset keeps the one before it.",
    ),
}
