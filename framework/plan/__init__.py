"""The plan: frozen steps, the pure planner that makes them, and the explainer that prints them.

Promises that planning does no I/O: all it knows comes in as the graph, the request and the stored state.
"""
