"""From the convolutions of a module, or operators by name, to plans."""
