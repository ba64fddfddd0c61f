"""Public data sets, one a file: where each comes from, its licence, and how its official files are read."""
