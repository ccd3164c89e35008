"""From loops and vectors to the LLVM dialect, and from there to native code and how to call it."""
