"""Expands `ingest_database` to the tables that the database has, each with its flows."""
