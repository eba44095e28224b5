"""Conditions of the dataflow graph and its rules."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_BATCH_OR_STREAM = "Read with `spark.readStream` for a stream, with `spark.read` for a batch."

CONDITIONS: dict[str, Condition] = {
    "PIPELINE_GRAPH_INVALID": Condition("The pipeline has {count} fault(s); nothing was written.", ""),
    "PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT": Condition(
        "Two datasets are named {name}; the first is at {first}.", "Rename one of them, or turn it into a flow."
    ),
    "PIPELINE_DUPLICATE_IDENTIFIERS.FLOW": Condition(
        "Two flows are named {name}; the first is at {first}.", "Give one of them another `name`."
    ),
    "PIPELINE_FLOW_WITHOUT_TARGET": Condition(
        "Flow {flow} writes to {target}, which this pipeline does not define.{hint}",
        "Declare it with `dp.create_streaming_table` or `dp.create_sink`, or correct the target.",
    ),
    "PIPELINE_FLOW_INTO_VIEW": Condition(
        "Flow {flow} writes to the temporary view {target}.",
        "Write to a streaming table, or union the rows inside the view's query.",
    ),
    "PIPELINE_DATASET_WITHOUT_FLOW": Condition(
        "Nothing flows into {dataset}.", "Add a flow with `dp.append_flow` or `dp.create_auto_cdc_flow`, or remove it."
    ),
    "PIPELINE_SINK_READ": Condition("{sink} is a sink, which can't be read.", "Read the table that feeds it."),
    "PIPELINE_GRAPH_NOT_TOPOLOGICALLY_SORTED": Condition(
        "Datasets read each other in a circle: {cycle}.", "Break the circle: one of these reads must go."
    ),
    "MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES": Condition(
        "Materialized view {dataset} has several queries: {flows}.",
        "Union them in one query, or make it a streaming table.",
    ),
    "AUTOCDC_TARGET_WITH_OTHER_FLOWS": Condition(
        "{dataset} is fed by the AUTO CDC flow {cdc_flow} and by {other_flow}, which is none.",
        "Use AUTO CDC flows only (with `once=True` for a backfill), or two tables.",
    ),
    "AUTOCDC_TARGET_NOT_A_STREAMING_TABLE": Condition(
        "AUTO CDC flow {flow} writes to {dataset}, a {kind}.", "Declare it with `dp.create_streaming_table`."
    ),
    "RESERVED_NAME": Condition("{name} begins with {prefix}, which Sluice keeps for itself.", "Choose another name."),
    "TABLE_FORMAT_NOT_SUPPORTED": Condition(
        "{dataset} asks for format {format}; pipeline tables are Delta tables.", "Drop `format`, or use a sink."
    ),
    "CLUSTER_BY_AND_PARTITIONED_BY_NOT_ALLOWED": Condition(
        "{dataset} has both partition and clustering columns.", "Keep `cluster_by` or `partition_cols`, not both."
    ),
    "ROW_FILTER_NOT_SUPPORTED": Condition(
        "{dataset} has a `row_filter`, which only Unity Catalog applies: here every reader would see all rows.",
        "Remove `row_filter`, and give readers a table whose query leaves the rows out.",
    ),
    "REFRESH_POLICY_NOT_SUPPORTED": Condition(
        "{dataset} has `refresh_policy` {policy!r}, and views are computed as a whole here.",
        "Use `auto` or `full`, or make it a streaming table.",
    ),
    "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW": Condition(
        "The query {flow} of materialized view {dataset} is a stream.",
        "Make it a streaming table with `dp.table`, or read a batch. " + _BATCH_OR_STREAM,
    ),
    "INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE": Condition(
        "Flow {flow} into {dataset} is a batch, and the target takes streams.",
        "Add `once=True` to load it once, or make the target a materialized view. " + _BATCH_OR_STREAM,
    ),
    "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_ONCE_FLOW": Condition(
        "The once flow {flow} into {dataset} is a stream.", "Read a batch, or drop `once=True`. " + _BATCH_OR_STREAM
    ),
    "INCOMPATIBLE_BATCH_VIEW_READ": Condition(
        "{view} is a batch view and is read as a stream.", "Use `spark.read.table`, or make the view's query a stream."
    ),
    "INCOMPATIBLE_STREAMING_VIEW_READ": Condition(
        "{view} is a streaming view and is read as a batch.", "Use `spark.readStream.table`."
    ),
    "TABLE_OR_VIEW_NOT_FOUND": Condition(
        "There is no dataset and no table named {name}.{hint}",
        "Correct the name, define the dataset, or create the table first.",
    ),
    "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND": Condition(
        "`{command}` does something; a query function may only describe rows.",
        "Keep the SELECT, and run the command outside the pipeline.",
    ),
    "FLOW_QUERY_FAILED": Condition("The query of {flow} can't be analysed: {cause}", "Correct the query."),
    "FLOW_QUERY_NOT_A_DATAFRAME": Condition(
        "The query function of {flow} returned {found}.", "Return a DataFrame; do not run it."
    ),
    "SCHEMA_CANNOT_EVOLVE": Condition(
        "Column {column} of {dataset} is {stored} and would become {found}.",
        "Cast it back, or rebuild the table with `sluice run --full-refresh {dataset}`.",
    ),
    "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE": Condition(
        "The query of {dataset} gives columns that its schema does not declare so: {columns}; declared: {declared}.",
        "Correct the schema or cast in the query.",
    ),
    "INVALID_SCHEMA": Condition("The schema of {dataset} can't be read: {cause}", "Write DDL, such as `id BIGINT`."),
    "COLUMN_NAME_IN_CHANGE_FEED": Condition(
        "{dataset} has columns with a backtick in their names, whose change data feed Delta can't write: {columns}.",
        "Rename them in the query, or leave `{property}` off.",
    ),
    "COLUMN_NAME_NEEDS_MAPPING": Condition(
        "{dataset} has columns or fields that Delta can't store under their names: {columns}.",
        "Rename them in the query, or declare `table_properties={{'{property}': 'name'}}`.",
    ),
    "LAYOUT_COLUMN_NOT_FOUND": Condition(
        "{dataset} is laid out by {column}, which is none of its columns: {columns}.", "Correct the column's name."
    ),
    "EXPECTATION_INVALID": Condition(
        "Expectation {expectation!r} of {dataset} can't be judged: {cause}",
        "Write a boolean SQL condition over the columns of the dataset.",
    ),
}
