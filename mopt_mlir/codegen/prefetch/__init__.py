"""Software prefetches: one module for each kind of data."""
