"""The runners of streaming flows: a Structured Streaming query, or a single batch of it."""
