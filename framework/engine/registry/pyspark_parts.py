"""Private parts of PySpark and Py4J."""

from __future__ import annotations

from framework.engine.registry.private_part import PrivatePart, Product

_PY4J = Product.PY4J
_SLOWER = "PySpark's own behaviour, which is slower"

PYSPARK_PARTS = (
    PrivatePart(module="jvm.java", owner="pyspark.core.context.SparkContext", members=("_gateway", "_jvm")),
    PrivatePart(
        module="jvm.gateway",
        owner="pyspark.core.context.SparkContext",
        members=("_gateway", "_jvm", "_jsc", "_active_spark_context", "_accumulatorServer"),
    ),
    PrivatePart(
        module="jvm.gateway",
        owner="pyspark.sql.session.SparkSession",
        members=("_instantiatedSession",),
        public_way="`SparkSession.getActiveSession`, in the thread that made the session",
    ),
    PrivatePart(module="jvm.gateway", owner="pyspark.java_gateway", members=("launch_gateway(conf, popen_kwargs)",)),
    PrivatePart(
        module="jvm.callbacks", owner="pyspark.java_gateway", members=("ensure_callback_server_started(gateway)",)
    ),
    PrivatePart(
        module="jvm.accumulators",
        owner="pyspark.accumulators.AccumulatorTCPServer",
        members=("shutdown()",),
        public_way=f"{_SLOWER}: a command ends half a second later",
    ),
    PrivatePart(
        module="jvm.call_sites",
        owner="pyspark.errors.utils",
        members=("is_debugging_enabled()", "_capture_call_site(depth)", "_enable_debugging_cache"),
        public_way=_SLOWER,
    ),
    PrivatePart(
        module="sessions.session", owner="pyspark.sql.session.SparkSession", members=("_jsparkSession", "_jsc", "_jvm")
    ),
    PrivatePart(module="plans.plans", owner="pyspark.sql.classic.dataframe.DataFrame", members=("_jdf",)),
    PrivatePart(module="plans.expressions", owner="pyspark.sql.classic.column.Column", members=("_jc",)),
    PrivatePart(module="plans.ddl", owner="pyspark.sql.types", members=("_parse_datatype_json_string(json)",)),
    PrivatePart(
        module="streams.readers", owner="pyspark.sql.readwriter.DataFrameReader", members=("_jreader", "_spark")
    ),
    PrivatePart(
        module="streams.readers",
        owner="pyspark.sql.streaming.readwriter.DataStreamReader",
        members=("_jreader", "_spark"),
    ),
    PrivatePart(
        module="streams.queries",
        owner="pyspark.sql.streaming.query.StreamingQuery",
        members=("_jsq",),
        public_way="`StreamingQuery.recentProgress`, which parses a hundred reports in each look",
    ),
    PrivatePart(
        module="streams.python_sources", owner="pyspark.sql.udf", members=("_wrap_function(context, function)",)
    ),
    PrivatePart(
        module="jvm.java_errors",
        owner="pyspark.errors.exceptions.captured.CapturedException",
        members=("_origin", "_stackTrace", "_desc"),
    ),
    PrivatePart(
        module="jvm.java_errors",
        owner="py4j.java_gateway",
        product=_PY4J,
        members=("JavaObject", "is_instance_of(gateway, object, class)"),
    ),
    PrivatePart(
        module="jvm.java",
        owner="py4j.java_gateway.JavaClass",
        product=_PY4J,
        members=("_fqn", "_gateway_client"),
    ),
    PrivatePart(
        module="jvm.callbacks",
        owner="py4j.java_gateway.JavaGateway",
        product=_PY4J,
        members=("_gateway_client", "_callback_server"),
    ),
    PrivatePart(
        module="jvm.gateway",
        owner="py4j.java_gateway",
        product=_PY4J,
        members=("quiet_shutdown(socket)",),
    ),
)
