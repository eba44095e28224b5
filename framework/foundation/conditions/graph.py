"""Conditions of the dataflow graph and its rules."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_BATCH_OR_STREAM = (
    "`spark.readStream`, and STREAM in SQL, returns a streaming DataFrame, `spark.read` a batch DataFrame."
)

CONDITIONS: dict[str, Condition] = {
    "TABLE_PROPERTY_WITHOUT_EFFECT": Condition(
        "The table property `{property}` has no effect: {why}.", "You may leave it as it is, or remove it."
    ),
    "TABLE_PROPERTY_UNKNOWN": Condition(
        "{dataset} has the table property `{property}`, which is unknown. Did you mean `{meant}`?",
        "Correct or remove it. As it is, full refreshes are allowed.",
    ),
    "TABLE_PROPERTY_INVALID": Condition(
        "The table property `{property}` of {dataset} can't be `{value}`: {cause}",
        "Correct or remove the property. Databricks has properties that open Delta does not have.",
    ),
    "PIPELINE_GRAPH_INVALID": Condition("The pipeline has {count} error(s). Nothing was written.", ""),
    "PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT": Condition(
        "Two datasets are named {name}; the other one is at {first}.", "Rename one of them, or declare it as a flow."
    ),
    "PIPELINE_DUPLICATE_IDENTIFIERS.FLOW": Condition(
        "Two flows are named {name}; the other one is at {first}.", "Set a different `name` for one of them."
    ),
    "PIPELINE_FLOW_WITHOUT_TARGET": Condition(
        "Flow {flow} writes to {target}, which this pipeline does not declare.{hint}",
        "Declare it with `dp.create_streaming_table` (in SQL: CREATE STREAMING TABLE) or `dp.create_sink`, or correct "
        "the target.",
    ),
    "PIPELINE_FLOW_INTO_VIEW": Condition(
        "Flow {flow} writes to {target}, which is a temporary view.",
        "Write to a streaming table, or combine the rows with a union in the query of the view.",
    ),
    "PIPELINE_DATASET_WITHOUT_FLOW": Condition(
        "Dataset {dataset} has no flow that writes to it.",
        "Add a flow with `dp.append_flow` or `dp.create_auto_cdc_flow` (in SQL: CREATE FLOW), or remove the dataset.",
    ),
    "PIPELINE_SINK_READ": Condition(
        "{sink} is a sink and cannot be read.", "Read the dataset that the sink's flow reads."
    ),
    "PIPELINE_GRAPH_NOT_TOPOLOGICALLY_SORTED": Condition(
        "The datasets depend on each other in a cycle: {cycle}.", "Remove one of these reads to break the cycle."
    ),
    "MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES": Condition(
        "Materialized view {dataset} has more than one query: {flows}.",
        "Combine them with a union in one query, or declare a streaming table.",
    ),
    "AUTOCDC_TARGET_WITH_OTHER_FLOWS": Condition(
        "{dataset} is the target of the AUTO CDC flow {cdc_flow} and of {other_flow}, which is not an AUTO CDC flow.",
        "Use only AUTO CDC flows (with `once=True`, in SQL AUTO CDC ONCE INTO, for a backfill), or two tables.",
    ),
    "AUTOCDC_TARGET_NOT_A_STREAMING_TABLE": Condition(
        "AUTO CDC flow {flow} writes to {dataset}, which is a {kind}; expected a streaming table.",
        "Declare {dataset} with `dp.create_streaming_table` (in SQL: CREATE STREAMING TABLE).",
    ),
    "RESERVED_NAME": Condition("{name} has the prefix {prefix}, which is reserved.", "Choose a different name."),
    "GRAPH_NOT_STORED": Condition(
        "No graph of pipeline {pipeline} is stored in {path}.",
        "Run `sluice validate` or `sluice run`, which store it.",
    ),
    "TABLE_FORMAT_NOT_SUPPORTED": Condition(
        "{dataset} has the format {format}; only the format delta is supported.", "Remove `format`, or use a sink."
    ),
    "CLUSTER_BY_AND_PARTITIONED_BY_NOT_ALLOWED": Condition(
        "{dataset} has both clustering columns and partition columns.", "Remove `cluster_by` or `partition_cols`."
    ),
    "PARTITION_STORES_OTHER_HOUR": Condition(
        "{dataset} is partitioned by {column}, a TIMESTAMP, and written in the time zone {zone}, whose clocks are set "
        "back. Delta stores a time in the second of the two equal hours as the same time in the first one.",
        "Partition by a DATE or a TIMESTAMP_NTZ, or cluster the table instead (`cluster_by`). Or write it in UTC: "
        '`spark_conf={{"spark.sql.session.timeZone": "UTC"}}`.',
    ),
    "ROW_FILTER_NOT_SUPPORTED": Condition(
        "{dataset} has a `row_filter`, which only Unity Catalog enforces. Here every reader would see all rows.",
        "Remove `row_filter`, and give readers access to a table whose query filters the rows.",
    ),
    "COLUMN_MASK_NOT_SUPPORTED": Condition(
        "The schema of {dataset} has a column with MASK, which only Unity Catalog enforces. Here every reader would "
        "see its values.",
        "Leave MASK out, and return masked values in the query.",
    ),
    "COMPUTED_COLUMN_INVALID": Condition(
        "Delta can't compute the column {column} of {dataset}: {cause}", "Correct the column in the schema."
    ),
    "COMPUTED_COLUMN_CHANGED": Condition(
        "The table of {dataset} does not compute these columns as the schema declares them: {columns}. The rows that "
        "are stored would have other values.",
        "Compute all rows again, with `sluice run --full-refresh {dataset}`, or declare the columns as before.",
    ),
    "DELTA_SINK_WITHOUT_PATH": Condition(
        "The Delta sink {dataset} has no `path` and no `tableName`.",
        "Set one of them in its `options`. `tableName` is the full name of a table in the storage of the pipeline, or "
        "of a catalog that Spark is configured with.",
    ),
    "DELTA_SINK_INTO_DATASET": Condition(
        "The Delta sink {dataset} writes to {table}, which is a dataset of the pipeline.",
        "Declare a streaming table, and make it the target of the flow in place of the sink.",
    ),
    "REFRESH_POLICY_NOT_SUPPORTED": Condition(
        "{dataset} has the `refresh_policy` {policy!r}, but incremental refresh of materialized views is not "
        "supported.",
        "Use `auto` or `full`, or declare a streaming table.",
    ),
    "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW": Condition(
        "The query {flow} of materialized view {dataset} returns a streaming DataFrame; expected a batch DataFrame.",
        "Declare a streaming table with `dp.table` (in SQL: CREATE STREAMING TABLE), or use a batch read. "
        + _BATCH_OR_STREAM,
    ),
    "INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE": Condition(
        "Flow {flow} into {dataset} returns a batch DataFrame; expected a streaming DataFrame.",
        "Add `once=True` (in SQL: INSERT INTO ONCE) to load the batch once, or declare a materialized view. "
        + _BATCH_OR_STREAM,
    ),
    "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_ONCE_FLOW": Condition(
        "The once flow {flow} into {dataset} returns a streaming DataFrame; expected a batch DataFrame.",
        "Use a batch read, or remove `once=True` (in SQL: ONCE). " + _BATCH_OR_STREAM,
    ),
    "DUPLICATE_COLUMNS": Condition(
        "The query of flow {flow} returns several columns named {columns}. {dataset} can't have them.",
        'Rename or drop all but one of them. A join by names, `a.join(b, "id")`, has each of these columns once.',
    ),
    "STREAMING_AGGREGATION_WITHOUT_WATERMARK": Condition(
        "Flow {flow} groups a stream without a watermark. It would have to change rows of {dataset}, but only appends.",
        "Use a materialized view: read with `spark.read`, and it has the same rows. Or add `withWatermark` and group "
        "by a window of its time: each group is appended when it is complete.",
    ),
    "STREAM_GROUPED_AS_VIEW": Condition(
        "Flow {flow} groups a stream without a watermark, so that {dataset} is a materialized view: each update "
        "computes its rows from all rows of the tables that it reads.",
        "You may leave it as it is, or read with `spark.read`, which is the same.",
    ),
    "STREAM_OF_MATERIALIZED_VIEW": Condition(
        "Flow {flow} reads the materialized view {view} as a stream: it reads the rows that updates add, and fails "
        "once a row changes or is gone.",
        "Leave it as it is if rows are only added. If not, read streams in the query of {view} (in SQL: STREAM), so "
        "that it is a streaming table, or in that of a temporary view in its place. Or apply its rows as snapshots "
        "with `dp.create_auto_cdc_from_snapshot_flow`, which SQL does not have. Or read its change feed.",
    ),
    "STREAMING_QUERY_NOT_SUPPORTED": Condition(
        "Spark can't run the query of flow {flow} as a stream: {cause}",
        "Correct the query, or use a materialized view.",
    ),
    "INCOMPATIBLE_BATCH_VIEW_READ": Condition(
        "View {view} is a batch view, but is read with `spark.readStream`.{hint}",
        "Use `spark.read.table`, or use a streaming read in the query of the view.",
    ),
    "INCOMPATIBLE_STREAMING_VIEW_READ": Condition(
        "View {view} is a streaming view, but is read with `spark.read`.{hint}", "Use `spark.readStream.table`."
    ),
    "TABLE_OR_VIEW_NOT_FOUND": Condition(
        "The table or dataset {name} cannot be found.{hint}",
        "Correct the name, declare the dataset, or create the table. For a table of another catalog, add its name to "
        "`tables` in sluice.local.yml, with a `path`.",
    ),
    "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND": Condition(
        "`{command}` is a SQL command, which is not supported in a query function.",
        "Use only queries, such as SELECT. Run the command outside the pipeline.",
    ),
    "PIPELINE_READ_NOT_FOLLOWED": Condition(
        "The query of {flow} reads {dataset}, a dataset of the pipeline, where reads of datasets are not supported: in "
        "a condition or expression as text, by VERSION AS OF or TIMESTAMP AS OF, by table_changes, or in another "
        "thread.",
        "Read the dataset with spark.read.table, spark.readStream.table or the FROM clause of spark.sql, in the query "
        "function itself. Write a subquery in spark.sql or as a join, a version as the option versionAsOf or "
        "timestampAsOf, and table_changes as the option readChangeFeed.",
    ),
    "FLOW_SOURCE_UNREADABLE": Condition(
        "{flow} can't read a source: {cause}",
        "{advice} Datasets that don't read {flow} are updated meanwhile.",
    ),
    "FLOW_QUERY_FAILED": Condition("The query of {flow} cannot be analyzed: {cause}", "{advice}"),
    "FLOW_QUERY_NOT_A_DATAFRAME": Condition(
        "The query function of {flow} returned {found}; expected a DataFrame.", "Return a DataFrame."
    ),
    "SCHEMA_CANNOT_EVOLVE": Condition(
        "Column {column} of {dataset} has type {stored} and cannot be changed to {found}.",
        "Cast the column to {stored} in the query, or rebuild the table with `sluice run --full-refresh {dataset}`. If "
        "the new type is wider, the table property `delta.enableTypeWidening` = `true` lets the column change. If "
        "files brought it, `cloudFiles.schemaHints` gives the column its former type.",
    ),
    "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE": Condition(
        "The query of {dataset} returns columns that are incompatible with its declared schema: {columns}. Declared "
        "schema: {declared}.",
        "Correct the schema, or cast the columns in the query; `coalesce` makes a value NOT NULL.",
    ),
    "INVALID_SCHEMA": Condition("The schema of {dataset} cannot be parsed: {cause}", "{advice}"),
    "COLUMN_NAME_IN_CHANGE_FEED": Condition(
        "{dataset} has columns with a backtick in their names, which Delta's change data feed does not support: "
        "{columns}.",
        "Rename the columns in the query, or remove the table property `{property}`.",
    ),
    "COLUMN_NAME_NEEDS_MAPPING": Condition(
        "{dataset} has columns or fields whose names need Delta column mapping: {columns}.",
        "Rename them in the query, or set the table property `'{property}' = 'name'`.",
    ),
    "LAYOUT_COLUMN_NOT_FOUND": Condition(
        "{dataset} is partitioned or clustered by {column}, which is not one of its columns: {columns}.",
        "Correct the column name.",
    ),
    "EXPECTATION_INVALID": Condition(
        "Expectation {expectation!r} of {dataset} is invalid: {cause}",
        "Write a boolean SQL expression over the columns of the dataset.",
    ),
}
