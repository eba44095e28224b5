"""Declarations: frozen specs, the registry that gathers them, and the public functions of pipeline modules.

A declaration is only recorded: the registry keeps the query functions, and the graph calls them.
"""
