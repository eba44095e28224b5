"""What code of a Databricks workspace needs on another machine, found without running it."""
