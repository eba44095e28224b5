"""Checkpoints of flows: generations of checkpoint folders, and readers of the files that Spark and Delta write.

Promises that all reads work without Spark and that every change is one atomic file write. The
planner reads checkpoints, the run changes them, recovery rolls them back.
"""
