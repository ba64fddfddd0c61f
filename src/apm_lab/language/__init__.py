"""Language models in every role, one backend a file."""
