"""Analysis of a target's flows before anything runs: rules, compatibility, and the target's schema."""
