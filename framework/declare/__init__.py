"""Declarations: frozen specs, the registry that gathers them, and the public functions of pipeline modules.

A declaration only records; the registry keeps query functions and the graph calls them.
"""
