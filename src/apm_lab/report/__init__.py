"""Tables, plots and pages from finished runs."""
