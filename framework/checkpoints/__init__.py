"""Checkpoints of flows: their folders in generations, and readers of the files that Spark and Delta write there.

Promises that all reads work without Spark and that every change is one atomic file write. The
planner reads checkpoints, the run changes them, recovery rolls them back.
"""
