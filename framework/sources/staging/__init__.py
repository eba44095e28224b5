"""Staging: the place, the files and the tasks by which readers of any source hand files to the runner of a flow."""
