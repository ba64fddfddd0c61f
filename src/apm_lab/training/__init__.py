"""Training: Lightning modules, data, callbacks, metrics and trackers; the only floor that imports Lightning."""
