"""Pipelines on Databricks: what a module declares goes on to the native `pyspark.pipelines`, or to `dlt`.

Promises that a call arrives there with the same meaning, from the same line of the user's module, or ends in
an error that says what has no native form. Called by `declare`, by deploys and by `sluice validate`; imports
nothing but `foundation`, so that a module of a pipeline loads on Databricks without the engine.
"""
