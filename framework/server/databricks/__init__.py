"""The routes with Databricks' shapes, for `databricks-sdk`, Airflow and Terraform."""
