"""Pipelines on Databricks: declarations are forwarded to the native `pyspark.pipelines`, or to `dlt`.

Each call has the same meaning and the same source line in the native module, or raises an error that names
the part without a native form. Used by `declare`, by deploys and by `sluice validate`. Imports only
`foundation`, so that a module of a pipeline loads on Databricks without the engine.
"""
