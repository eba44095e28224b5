"""Private parts of Spark, PySpark, Py4J and Delta: the only room that names them.

Other rooms call its functions. `registry` lists each part with the tested versions and the public alternative;
`session_check` checks them once per session (ADR 84).
"""
