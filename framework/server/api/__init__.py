"""The routes below `/api/sluice/v1`."""
