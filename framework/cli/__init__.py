"""The command line: `sluice`.

Only results are written to standard output. The exit code is 0 for success, 1 for a failure, and 2 for invalid usage or
definitions. A command that does not need Spark does not start it: each command's module is imported when it is called.
"""
