"""The benchmarks of Sluice: `make bench`, or `python -m bench a f` for some of them.

Each benchmark runs its variants alternately (A B A B), takes the median of the ratios of the pairs, and compares it
with the project's goal. `RESULTS.md` has the latest figures.
"""
