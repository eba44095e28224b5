"""The workspace's API: the SDK client, SQL statements, lookups, pipeline runs."""
