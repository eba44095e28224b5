"""The command line: `sluice`.

Promises that results and nothing else go to standard output, that an exit code says how a command
ended (0 done, 1 failed, 2 wrong usage or definitions), and that what needs no Spark starts without
it: each command's module is imported when the command is called.
"""
