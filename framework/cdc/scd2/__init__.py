"""SCD type 2: the known events of keys, their timeline, and the intervals that the target displays."""
