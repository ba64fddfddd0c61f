"""Pure functions on arrays: no input or output, no configuration, no globals."""
