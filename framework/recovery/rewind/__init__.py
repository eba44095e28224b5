"""Rewinds of datasets and their checkpoints to an earlier time: decided here, executed by `run.update.rewinds`."""
