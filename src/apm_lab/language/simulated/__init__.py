"""The embedded, calibrated simulated world: text in, text out, with nothing to download.

Rewriter, responder and judge know English each in its own way: they import nothing from each other and share no word
list (a test holds it). It is a simulation and never quoted as a language model's result; see docs/simulation.md.
"""
