"""Rewinds of datasets with their checkpoints to an earlier time: decided here, executed by `run.update.rewinds`."""
