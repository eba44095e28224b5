"""Who may do what: roles, tokens, sessions of browsers and one-time codes."""
