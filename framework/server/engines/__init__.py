"""Engines: the processes of updates, their records, their queue, and how a restarted server adopts them."""
