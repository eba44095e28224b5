"""dlt's `sql_database` into Delta tables: `load.py URI TABLE FOLDER FIGURES`, run by a Python that has dlt.

With the settings that dlt's documentation names as its fastest: Arrow batches, and files of one load in parallel.
"""

import json
import sys
import time
from pathlib import Path

import dlt
from deltalake import DeltaTable
from dlt.sources.sql_database import sql_table
from sqlalchemy import Float, Table


def keep_doubles(table: Table) -> None:
    """Read a DOUBLE of MariaDB as a float: by default it is a decimal, of another scale in each batch."""
    for column in table.columns:
        if isinstance(column.type, Float):
            column.type.asdecimal = False


uri, table, folder, figures = sys.argv[1:]
begun = time.monotonic()
destination = dlt.destinations.filesystem(bucket_url=Path(folder).as_uri())
pipeline = dlt.pipeline("bench", destination=destination, dataset_name="copy", pipelines_dir=f"{folder}_state")
source = sql_table(
    credentials=uri, table=table, backend="pyarrow",
    chunk_size=100_000, reflection_level="full_with_precision", table_adapter_callback=keep_doubles,
)  # fmt: skip
pipeline.run(source, table_format="delta", write_disposition="replace")
seconds = time.monotonic() - begun
rows = DeltaTable(f"{folder}/copy/{table}").to_pyarrow_dataset().count_rows()
Path(figures).write_text(json.dumps({"seconds": seconds, "rows": rows}), encoding="utf-8")
