"""Changes of SQL Server: change tables from LSN to LSN, or change tracking from version to version."""
