"""The lowest layer: errors, names, source locations, storage, time and failpoints.

It imports no other package of the framework, so every package may import it.
"""
