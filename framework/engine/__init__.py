"""Private parts of Spark, PySpark, Py4J and Delta: the only room that names them.

Other rooms call its functions. `registry` lists each part with the versions that were tested and the public way beside
it; `session_check` looks at it once per session (ADR 84).
"""
