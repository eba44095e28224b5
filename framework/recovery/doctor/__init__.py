"""Diagnoses of flows that are broken, stuck or behind: what was seen, what it means, and ways out with their cost."""
