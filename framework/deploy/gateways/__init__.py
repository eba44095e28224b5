"""What can stop a gateway: its event log, the jobs that run it, and the state of other deploy tools."""
