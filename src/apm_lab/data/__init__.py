"""Files in, records out; every fault named by file and line."""
