"""What is seen beside the errors of flows: failures in the event log, gateways, the disk, the pace, undone commits."""
