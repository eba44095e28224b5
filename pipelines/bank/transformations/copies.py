"""Copies of the bank's four tables: each has the rows of its source, whatever is killed while it is read."""

from __future__ import annotations

from framework import pipelines as dp

dp.ingest_database(
    name="bank",
    connection="bank",
    objects=[
        {"table": {"source_schema": "public", "source_table": f"pgbench_{name}", "destination_table": name}}
        for name in ("accounts", "branches", "tellers", "history")
    ],
    table_configuration={"scd_type": "SCD_TYPE_1"},
    options={
        "chunkBytes": spark.conf.get("bank.chunkBytes"),
        "maxChunksPerTrigger": spark.conf.get("bank.maxChunksPerTrigger"),
    },
)
