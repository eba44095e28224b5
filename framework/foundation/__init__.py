"""The ground floor: errors, names, source locations, storage, time and failpoints.

Promises that nothing in here imports another room of the house, so every room may stand on it.
"""
