"""Delta's log and its transactions: versions, files, deletion vectors, and commits that replace or restore rows."""
