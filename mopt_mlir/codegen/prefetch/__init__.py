"""Software prefetches, by kind of data and how it lies."""
