"""The state of pipelines, read from their storages alone."""
