"""From operations of the linalg dialect to problems: what a convolution is."""
