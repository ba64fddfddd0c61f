"""Personalisation methods: one file each, and the Protocols through which they are handed what they need."""
