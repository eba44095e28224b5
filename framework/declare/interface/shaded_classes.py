"""Class names of Kafka's client in options: Databricks has them below `kafkashaded.`, the client itself does not."""

from __future__ import annotations

from framework.declare.specs import Pairs

KAFKA = "kafka"
"""The format whose options have such names."""

_PREFIX = "kafkashaded."


def unshaded(options: Pairs) -> Pairs:
    """Return options with the names of classes that exist outside of Databricks, such as login modules.

    Examples:
        >>> unshaded((("kafka.sasl.jaas.config", "kafkashaded.org.x.Login required;"), ("topic", "kafkashaded.t")))
        (('kafka.sasl.jaas.config', 'org.x.Login required;'), ('topic', 'kafkashaded.t'))
    """
    return tuple(
        (name, value.replace(_PREFIX, "") if name.lower().startswith("kafka.") else value) for name, value in options
    )
