"""Declarations: frozen specs, the registry that gathers them, and the faces users call.

Promises that declaring does nothing but record; query functions are kept and called by the graph.
"""
