"""Private parts of Spark in the JVM: Catalyst, the classic session, the sources of files and streams."""

from __future__ import annotations

from framework.engine.registry.private_part import PrivatePart

_CATALYST = "org.apache.spark.sql.catalyst"
_LOGICAL = f"{_CATALYST}.plans.logical"
_EXPRESSIONS = f"{_CATALYST}.expressions"
_CLASSIC = "org.apache.spark.sql.classic"
_EXECUTION = "org.apache.spark.sql.execution"
_STREAMING = f"{_EXECUTION}.streaming"
_FILES = f"{_EXECUTION}.datasources"


def _part(module: str, owner: str, *members: str, public_way: str = "") -> PrivatePart:
    return PrivatePart(module=module, owner=owner, members=members, public_way=public_way)


SPARK_PARTS = (
    # Plans
    _part("plans.plans", f"{_CLASSIC}.Dataset", "queryExecution(): QueryExecution"),
    _part("plans.plans", f"{_CLASSIC}.Dataset$", "ofRows(SparkSession, LogicalPlan): Dataset"),
    _part("plans.plans", f"{_EXECUTION}.QueryExecution", "analyzed()", "optimizedPlan()", "executedPlan()", "toRdd()"),
    _part(
        "plans.plans",
        f"{_LOGICAL}.LogicalPlan",
        "nodeName()",
        "children()",
        "collectLeaves()",
        "withNewChildren(Seq)",
        "subqueriesAll()",
        "treeString(…)",
        "expressions()",
        "output()",
        "isStreaming()",
        "deterministic()",
        "containsPattern(TreePattern)",
        "stats()",
        "transformUpWithSubqueries(PartialFunction)",
        "innerChildren()",
        "origin()",
    ),
    _part("plans.plans", f"{_CATALYST}.trees.TreePattern", "CURRENT_LIKE()", "PYTHON_UDF()"),
    _part("plans.plans", f"{_EXPRESSIONS}.PythonFuncExpression", "func()", "name()"),
    _part("plans.relations", f"{_LOGICAL}.LocalRelation", "(Seq, Seq, boolean, Option)", "newInstance()", "data()"),
    _part("plans.relations", f"{_LOGICAL}.Range", "(long, long, long, Option, Seq, boolean)"),
    _part("plans.relations", f"{_LOGICAL}.SubqueryAlias", "(AliasIdentifier, LogicalPlan)"),
    _part("plans.relations", f"{_CATALYST}.AliasIdentifier", "(String, Seq)"),
    _part("plans.relations", f"{_CATALYST}.types.DataTypeUtils$", "toAttributes(StructType)", "fromAttributes(Seq)"),
    _part("plans.relations", f"{_FILES}.LogicalRelation$", "apply(BaseRelation, boolean)"),
    _part("plans.relations", f"{_FILES}.LogicalRelation", "relation()", "catalogTable()"),
    _part(
        "plans.relations", f"{_FILES}.HadoopFsRelation", "location()", "options()", "dataSchema()", "partitionSchema()"
    ),
    _part("plans.relations", f"{_FILES}.FileIndex", "rootPaths()", "inputFiles()"),
    _part("plans.relations", f"{_STREAMING}.runtime.StreamingRelation", "dataSource()"),
    _part(
        "plans.relations",
        f"{_FILES}.DataSource",
        "options()",
        "className()",
        "copy(…)",
        "lookupDataSource(String, SQLConf)",
    ),
    _part("plans.relations", f"{_CLASSIC}.SparkSession", "internalCreateDataFrame(RDD, StructType, boolean)"),
    _part("plans.row_queries", f"{_LOGICAL}.Project", "(Seq, LogicalPlan)", "projectList()"),
    _part("plans.row_queries", f"{_EXPRESSIONS}.Alias", "(Expression, String, ExprId, Seq, Option, Seq)"),
    _part("plans.distinct_streams", f"{_LOGICAL}.Deduplicate", "(Seq, LogicalPlan)"),
    _part(
        "plans.sql_relations",
        f"{_CATALYST}.parser.ParserInterface",
        "parsePlan(String)",
        "parseMultipartIdentifier(String)",
    ),
    _part("plans.named_tables", f"{_LOGICAL}.LogicalPlan", "treeString()"),
    _part("plans.sql_relations", f"{_CATALYST}.analysis.UnresolvedRelation", "multipartIdentifier()", "options()"),
    _part("plans.sql_relations", f"{_LOGICAL}.UnresolvedWith", "cteRelations()", "allowRecursion()", "copy(…)"),
    _part(
        "plans.sql_relations", f"{_CATALYST}.analysis.PlanWithUnresolvedIdentifier", "identifierExpr()", "planBuilder()"
    ),
    _part(
        "plans.stateful_operators",
        f"{_CATALYST}.analysis.UnsupportedOperationChecker$",
        "checkForStreaming(LogicalPlan, OutputMode)",
    ),
    _part(
        "plans.stateful_operators",
        f"{_STREAMING}.runtime.IncrementalExecution",
        "(SparkSession, LogicalPlan, …)",
        "executedPlan()",
    ),
    _part("plans.stateful_operators", f"{_STREAMING}.runtime.WatermarkPropagator$", "noop()"),
    _part("plans.stateful_operators", f"{_STREAMING}.checkpointing.OffsetSeqMetadata$", "apply(String)"),
    _part(
        "plans.stateful_operators", f"{_STREAMING}.operators.stateful.StateStoreWriter", "stateInfo()", "shortName()"
    ),
    # Expressions and columns
    _part("plans.expressions", f"{_CLASSIC}.ExpressionUtils", "expression(Column)", "column(Expression)"),
    _part(
        "plans.expressions", f"{_EXPRESSIONS}.aggregate.BloomFilterAggregate", "(Expression, Expression, Expression)"
    ),
    _part("plans.expressions", f"{_EXPRESSIONS}.BloomFilterMightContain", "(Expression, Expression)"),
    _part("plans.expressions", f"{_EXPRESSIONS}.Literal", "(Object, DataType)", "TrueLiteral()"),
    _part(
        "plans.expressions",
        f"{_EXPRESSIONS}.objects.Invoke",
        "(Expression, String, DataType, Seq, Seq, boolean, boolean, boolean)",
    ),
    _part("plans.columns", f"{_CLASSIC}.ColumnNodeToExpressionConverter$", "apply(ColumnNode)"),
    _part("plans.parsed_expressions", f"{_CATALYST}.parser.CatalystSqlParser$", "parseExpression(String)"),
    _part(
        "plans.functions",
        f"{_CATALYST}.analysis.FunctionRegistry",
        "builtin()",
        "lookupFunction(FunctionIdentifier)",
        "functionExists(FunctionIdentifier)",
    ),
    _part(
        "plans.functions",
        f"{_CATALYST}.analysis.TableFunctionRegistry",
        "builtin()",
        "functionExists(FunctionIdentifier)",
    ),
    _part("plans.functions", f"{_CATALYST}.FunctionIdentifier", "(String)"),
    _part("plans.ddl", f"{_LOGICAL}.CreateTable", "tableSpec()", "columns()"),
    _part(
        "plans.ddl",
        f"{_LOGICAL}.ColumnDefinition",
        "dataType()",
        "defaultValue()",
        "generationExpression()",
        "identityColumnSpec()",
        "nullable()",
        "comment()",
    ),
    # Sessions
    _part(
        "sessions.session",
        f"{_CLASSIC}.SparkSession",
        "sessionState()",
        "sharedState()",
        "cloneSession()",
        "expression(Column)",
        "resolveAndValidateParameters(Map)",
    ),
    _part(
        "sessions.session",
        "org.apache.spark.sql.internal.SessionState",
        "sqlParser()",
        "catalog()",
        "conf()",
        "newHadoopConf()",
        "newHadoopConfWithOptions(Map)",
        "streamingQueryManager()",
        "dataSourceManager()",
    ),
    _part("sessions.session", "org.apache.spark.sql.internal.VariableSubstitution", "()", "substitute(String)"),
    _part(
        "sessions.session",
        f"{_CATALYST}.parser.ParameterHandler$",
        "substituteNamedParameters(String, Map)",
        "substitutePositionalParameters(String, Seq)",
    ),
    _part(
        "sessions.session",
        f"{_CATALYST}.catalog.SessionCatalog",
        "tableExists(TableIdentifier)",
        "getTableMetadata(TableIdentifier)",
        "getTempView(String)",
        public_way="`spark.catalog`, which opens the table",
    ),
    _part("sessions.session", f"{_CATALYST}.util.DateTimeUtils", "getZoneId(String)"),
    _part("sessions.frozen_time", f"{_CLASSIC}.SparkSession", "extensions()", "sessionState()"),
    _part(
        "sessions.frozen_time",
        "org.apache.spark.sql.SparkSessionExtensions",
        "injectPlanNormalizationRule(Function1)",
        "buildPlanNormalizationRules(SparkSession)",
    ),
    _part("sessions.frozen_time", f"{_CATALYST}.rules.Rule", "apply(TreeNode)"),
    _part(
        "sessions.frozen_time",
        f"{_LOGICAL}.LogicalPlan",
        "transformAllExpressionsWithSubqueries(PartialFunction)",
    ),
    _part(
        "sessions.frozen_time",
        f"{_EXPRESSIONS}.CurrentBatchTimestamp",
        "(long, DataType, Option)",
        "toLiteral()",
        "dataType()",
        "timeZoneId()",
    ),
    _part("sessions.frozen_time", f"{_EXPRESSIONS}.CurrentTimestampLike", "()"),
    _part("sessions.frozen_time", f"{_EXPRESSIONS}.CurrentDate", "timeZoneId()"),
    _part("sessions.frozen_time", f"{_EXPRESSIONS}.LocalTimestamp", "timeZoneId()"),
    _part("sessions.frozen_time", f"{_EXPRESSIONS}.CurrentTime", "precision()", "zoneId()", "dataType()"),
    _part("sessions.frozen_time", f"{_EXPRESSIONS}.CallMethodViaReflection", "children()"),
    _part(
        "sessions.execution",
        f"{_CLASSIC}.SparkSession",
        "setActiveSession(SparkSession)",
        "clearActiveSession()",
        "getActiveSession()",
    ),
    # Files
    _part("files.hadoop_files", "org.apache.spark.deploy.SparkHadoopUtil$", "get()"),
    _part(
        "files.hadoop_files",
        f"{_FILES}.InMemoryFileIndex",
        "(SparkSession, Seq, Map, Option, FileStatusCache, Option, Option)",
        "allFiles()",
    ),
    _part("files.hadoop_files", f"{_FILES}.NoopCache$"),
    _part(
        "files.hadoop_configuration",
        "org.apache.hadoop.conf.Configuration",
        "properties",
        "updatingResource",
        public_way="the configuration stays as it is, and each query is slower",
    ),
    _part(
        "files.csv_files",
        f"{_CATALYST}.csv.CSVOptions",
        "(Map, boolean, String)",
        "asParserSettings()",
        "headerFlag()",
        "multiLine()",
    ),
    _part("files.csv_files", f"{_FILES}.csv.CSVUtils", "makeSafeHeader(String[], boolean, CSVOptions)"),
    _part("files.csv_files", f"{_FILES}.CodecStreams", "createInputStream(Configuration, Path)"),
    _part("files.csv_files", f"{_FILES}.HadoopLineRecordReader", "()", "(byte[])"),
    _part("files.csv_files", f"{_FILES}.text.TextOptions", "(Map)", "lineSeparatorInRead()"),
    # Streams
    _part("streams.stream_source", f"{_STREAMING}.Source"),
    _part("streams.stream_source", f"{_STREAMING}.runtime.SerializedOffset", "(String)"),
    _part(
        "streams.stream_source", f"{_STREAMING}.runtime.StreamingExecutionRelation$", "apply(…)", "apply$default$4()"
    ),
    _part(
        "streams.queries",
        f"{_CLASSIC}.StreamingQueryManager",
        "listListeners()",
        "listenerBus",
        public_way="the listener of a session stays",
    ),
    _part("streams.python_sources", f"{_FILES}.v2.python.UserDefinedPythonDataSource", "(PythonFunction)"),
    _part(
        "streams.python_sources",
        f"{_FILES}.DataSourceManager",
        "dataSourceExists(String)",
        "registerDataSource(String, …)",
    ),
    _part(
        "streams.readers",
        f"{_CLASSIC}.DataStreamReader",
        "extraOptions()",
        "extraOptions_$eq(CaseInsensitiveMap)",
        "source()",
        "userSpecifiedSchema()",
    ),
    # The JVM
    _part("jvm.java", "org.apache.spark.util.Utils", "getContextOrSparkClassLoader()"),
    _part("jvm.java_causes", "org.apache.spark.util.Utils", "getConfiguredLocalDirs(SparkConf)"),
    _part("jvm.gateway", "org.apache.spark.api.java.JavaSparkContext", "fromSparkContext(SparkContext)"),
    _part("jvm.baseline", "org.apache.spark.api.python.Py4JServer", "(SparkConf)"),
    _part("jvm.baseline", "org.apache.spark.SparkEnv", "get()", "pythonWorkers"),
    _part("jvm.baseline", "org.apache.spark.util.Utils", "getLocalDir(SparkConf)", "deleteRecursively(File)"),
    _part(
        "jvm.java_definitions",
        "org.codehaus.janino.SimpleCompiler",
        "cook(String)",
        "getBytecodes()",
        public_way="files are Hadoop's own, and slower",
    ),
)
