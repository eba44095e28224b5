"""The demo: a year of real flights as an airport would send them, and the pipeline that takes them in.

Promises the same bytes for the same number of months, and tables that agree with the source to the digit.

`sluice demo` calls `framework.demo.demo.run_demo(folder=, months=, master=, progress=)`, with
`DEFAULT_FOLDER` and `DEFAULT_MONTHS` where the user says nothing and `months=None` for `--all`, and prints the
`DemoResult`: `result_rows`, the counts in `update.flows[…].expectations`, `update.is_idle`, and the paths.
Tests and benchmarks call `feeder.write_feed`.
"""
