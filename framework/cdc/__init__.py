"""AUTO CDC: from change events to the rows of a table, whatever order they arrive in.

Promises that the rows of a target depend only on the *set* of events that were applied to it:
never on their order, on how they fell into batches, or on a batch being applied twice.
`plan_target` decides (before anything runs) what the flows of a target make of it;
`AutoCdcWriter` applies micro-batches. Called by the graph (the former) and the executor (the latter).
"""
