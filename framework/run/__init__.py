"""Execution of updates: tables, flows, and the executor and supervisor of planned steps.

Promises that the execution makes no decision that the plan does not contain.
"""
