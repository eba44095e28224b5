"""Static analysis of Databricks pipelines: what their code needs on another machine."""
