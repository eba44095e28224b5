"""One micro-batch of change events: normalized, validated, and bounded by its keys."""
