"""The plan: frozen steps, the pure planner that creates them, and the explainer that prints them.

Promises that planning does no I/O: its only inputs are the graph, the request and the stored state.
"""
