"""One subject a file; see ``suite.Subject`` for what a subject is."""
