"""Deployed state of a target: state file, lock, queue, uploaded files, and the calls for each kind of resource."""
