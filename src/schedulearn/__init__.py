"""Schedulearn: a lightweight, Docker-native scheduler for deep-learning training."""

__version__ = "0.1.0"
