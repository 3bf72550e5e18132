"""What the GPUs of a machine do now. Containers of hosts run it: NVML, the standard library, and Python 3.8 syntax."""
