"""Experiments on LLM style personalization (the APM benchmark) and reward-model perspectives."""

__version__ = "0.1.0"
