"""Short spec of a database ingestion, and its rendering to bundle files."""
