"""A Databricks workspace for modules on any machine: paths, tables, secrets, parameters, `dbutils`."""
