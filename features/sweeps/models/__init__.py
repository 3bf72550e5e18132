"""Evaluation of experiments, predictions of response time and accuracy, and configuration search. Pure."""
