"""The pipeline's tables: where they are, what they hold, and what their commits wrote."""
