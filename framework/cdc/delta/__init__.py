"""Commits to Delta tables: transactions, file statistics, compaction, and the auxiliary table."""
