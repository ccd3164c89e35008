"""What register tiles ask for ahead of its use: one module for each kind of memory."""
