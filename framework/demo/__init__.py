"""The demo: a year of real flights as an airport would send them, and the pipeline that takes them in.

Promises the same bytes for the same number of months, and tables that agree with the source to the digit.
`sluice demo` calls `run_demo`; tests and benchmarks call `write_feed` too.
"""
