"""What tests state about a sandbox: tables, quality, quarantine, plans, events, errors, and any order of arrival."""
