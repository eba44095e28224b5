"""What a Databricks workspace has around a module, on any machine: paths, tables, secrets, parameters, `dbutils`."""
