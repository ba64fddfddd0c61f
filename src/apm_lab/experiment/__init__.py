"""The only floor that knows Hydra and OmegaConf: configuration in, a finished run out."""
