"""Full refreshes in a copy of the table, with the history and the quarantined rows that it keeps."""
