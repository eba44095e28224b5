"""Conditions of the demo: its data and its folder."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "DEMO_DATA_MISSING": Condition(
        "The demo's data, the package {package}, is not installed.", "Install it: pip install 'sluice[demo]'."
    ),
    "DEMO_MONTHS_INVALID": Condition(
        "{months} is not a number of months that the demo has.", "Give 1 to 12, or --all for the year."
    ),
    "DEMO_FOLDER_TAKEN": Condition(
        "The folder {folder} {content}.", "Give another one with --folder, or delete it and run the demo again."
    ),
}
