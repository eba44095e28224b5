"""What is known about a query without running it: calls, operators, filters, fingerprint."""
