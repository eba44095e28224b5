"""The analysis of a query without running it: calls, operators, filters, fingerprint."""
