"""Evidence beside the flows' errors: failures in the event log, gateways, the disk, the pace, undone commits."""
