"""Probe of a machine's GPUs.

Containers of hosts run it. It uses NVML, the standard library, and Python 3.8 syntax.
"""
