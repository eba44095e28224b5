"""Class names of the Kafka client in options: Databricks has them below `kafkashaded.`, Apache Kafka does not."""

from __future__ import annotations

from framework.declare.specs import Pairs

KAFKA = "kafka"
"""The format whose options may contain such names."""

_PREFIX = "kafkashaded."


def unshaded(options: Pairs) -> Pairs:
    """Return options with class names, such as login modules, that exist outside of Databricks.

    Examples:
        >>> unshaded((("kafka.sasl.jaas.config", "kafkashaded.org.x.Login required;"), ("topic", "kafkashaded.t")))
        (('kafka.sasl.jaas.config', 'org.x.Login required;'), ('topic', 'kafkashaded.t'))
    """
    return tuple(
        (name, value.replace(_PREFIX, "") if name.lower().startswith("kafka.") else value) for name, value in options
    )
