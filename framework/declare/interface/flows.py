"""Append flows: `@append_flow`."""

from __future__ import annotations

from collections.abc import Mapping

from framework.declare.interface.call import Call, declaration
from framework.declare.interface.queries import QueryDecorator, check_query, declared_of, default_name
from framework.declare.registry import QueryFunction, active_registry
from framework.declare.specs import AutoCdcSpec, FlowSpec
from framework.foundation.names import QualifiedName


@declaration
def append_flow(
    target: str,
    name: str | None = None,
    *,
    once: bool = False,
    spark_conf: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> QueryDecorator:
    """Declare a flow that appends the decorated function's rows to a streaming table or sink.

    Args:
        target: the streaming table or sink; several flows may write to one.
        name: the flow's name, which identifies its checkpoint; default: the function's.
        once: the function returns a batch DataFrame, which is appended once per generation.
        spark_conf: settings of Spark for this flow.
        comment: a description.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument.
    """
    call = Call.of("append_flow")
    return query_flow(call, target, None, name=name, once=once, spark_conf=spark_conf, comment=comment)


def query_flow(
    call: Call,
    target: str,
    cdc: AutoCdcSpec | None,
    *,
    name: str | None,
    once: object,
    spark_conf: object,
    comment: object,
) -> QueryDecorator:
    """Return the decorator that registers a flow with the decorated function's rows; without `cdc` it appends them."""
    into = call.qualified("target", target)
    call.optional_text("name", name)
    is_once = call.flag("once", once)
    settings = call.pairs("spark_conf", spark_conf)
    description = call.comment(comment)

    def decorate(function: QueryFunction) -> QueryFunction:
        return register_query_flow(
            call,
            function,
            FlowSpec(
                name=full_flow_name(call, function, name),
                target=into,
                location=call.location,
                once=is_once,
                spark_conf=settings,
                comment=description,
                cdc=cdc,
            ),
        )

    return decorate


def full_flow_name(call: Call, function: QueryFunction, name: str | None) -> QualifiedName:
    """Return the full name of a decorated flow: the given name, else the function's name."""
    check_query(call, function)
    return call.qualified("name", name if name is not None else default_name(call, function))


def register_query_flow(call: Call, function: QueryFunction, flow: FlowSpec) -> QueryFunction:
    """Register a flow with the decorated function as its query; return the function unchanged.

    Raises:
        UserError: EXPECTATION_ON_FLOW if expectations are stacked below; expectations belong to the target.
    """
    waiting = declared_of(function).expectations
    if waiting:
        raise call.fault("EXPECTATION_ON_FLOW", name=waiting[0].name, flow=flow.name, target=flow.target)
    registry = active_registry()
    registry.flows.append(flow)
    registry.queries[flow.name] = function
    return function
