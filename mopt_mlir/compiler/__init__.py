"""From a source to native code, in this process or in files."""
