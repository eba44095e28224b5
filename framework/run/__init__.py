"""Execution of updates: tables, flows, and the executor and supervisor of planned steps.

The execution makes no decision that the plan does not contain.
"""
