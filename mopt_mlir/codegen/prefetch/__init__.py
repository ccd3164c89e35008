"""Software prefetches, by kind of data and how it lies; that of partial sums is in `partials`."""
