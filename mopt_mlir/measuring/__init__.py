"""Running compiled code: this machine's figures, and the speed and accuracy of functions."""
