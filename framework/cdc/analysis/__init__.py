"""Analysis of a target's flows before anything runs: rules, compatibility, schema drift, the target's schema."""
