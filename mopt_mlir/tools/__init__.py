"""The commands: arguments, messages and exit codes, and nothing that a Python user would miss."""
