"""The studies, each read top to bottom like its paper."""
