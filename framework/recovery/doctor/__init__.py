"""Diagnoses of flows that are broken, stuck or behind: the evidence, its meaning, and the ways out with their cost."""
