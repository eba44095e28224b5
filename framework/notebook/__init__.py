"""Notebooks: cells that are modules of a pipeline, magics, and displays that change while an update runs."""
