"""Lightning callbacks that score held-out training users while a router trains."""
