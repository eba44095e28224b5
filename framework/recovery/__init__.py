"""Tools for operators of a pipeline: table comparison, lag, backups, quarantine, rewinds and the doctor."""
