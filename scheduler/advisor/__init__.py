"""Experiments evaluated, response time and accuracy predicted, configurations sought. Pure."""
