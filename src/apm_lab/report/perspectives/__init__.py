"""Tables and figures of the study of reward models."""
