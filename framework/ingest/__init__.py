"""Ingestion of databases: from the tables of a source to the datasets and flows of a pipeline."""
