"""The catalog of SQL Server: tables, columns, keys and capture instances."""
