"""AUTO CDC: applies change events to the rows of a table, in any order of arrival.

The rows of a target depend only on the *set* of events that were applied to it. They don't depend on the order of
events, on their distribution over batches, or on a batch being applied twice. `plan_target` derives the target from its
flows before anything runs, and is called by the graph. `AutoCdcWriter` applies micro-batches, and is called by the
executor.
"""
