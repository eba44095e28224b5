"""Sums over the copies. Each transaction of pgbench changes four tables by one amount, so the sums must agree."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework import pipelines as dp

AGREE = "accounts = branches AND accounts = tellers AND accounts = history"


@dp.table(comment="Balances of each branch: its own, and those of its tellers and of their entries")
def branch_balances() -> DataFrame:
    """One row for each branch."""
    tellers = spark.read.table("tellers").groupBy("bid").agg(F.sum("tbalance").alias("tellers"))
    entries = (
        spark.read.table("history").groupBy("bid").agg(F.sum("delta").alias("history"), F.count("*").alias("entries"))
    )
    branches = spark.read.table("branches").select("bid", F.col("bbalance").alias("branch"))
    return branches.join(tellers, "bid", "left").join(entries, "bid", "left").orderBy("bid")


@dp.table(comment="The sum of all accounts, which is that of all branches, tellers and entries")
@dp.expect("all balances agree", AGREE)
def balances() -> DataFrame:
    """One row."""
    sums = (
        spark.read.table(table).agg(F.coalesce(F.sum(column), F.lit(0)).alias(table))
        for table, column in (
            ("accounts", "abalance"), ("branches", "bbalance"), ("tellers", "tbalance"), ("history", "delta"),
        )
    )  # fmt: skip
    first, *others = sums
    for other in others:
        first = first.crossJoin(other)
    return first
