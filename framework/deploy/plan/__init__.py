"""What a deploy does: differences, gateway state, policy, and the guard's verdicts."""
