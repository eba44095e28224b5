"""SCD type 1: the latest events of a batch, merged into the target."""
