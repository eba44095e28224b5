"""The benchmarks of Sluice: `make bench`, or `python -m bench a f` for some of them.

Each one runs what it compares in turn (A B A B), takes the median of the ratios of the pairs, and holds it
against the goal that the project set itself. `RESULTS.md` keeps the last figures of each.
"""
