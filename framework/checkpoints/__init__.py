"""Where flows got to: checkpoint folders in generations, and what Spark and Delta wrote there.

Promises that all of it is read without Spark and that every change is one atomic file write. The
planner reads it, the run changes it, recovery rolls it back.
"""
