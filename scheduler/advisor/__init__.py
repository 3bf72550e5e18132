"""Evaluation of experiments, prediction of response time and accuracy, search for configurations. Pure."""
