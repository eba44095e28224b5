"""Plan of a deploy: differences, gateway state, policy, and the guard's verdicts."""
