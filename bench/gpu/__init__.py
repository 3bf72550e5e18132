"""`make gpu-check`: everything that can only be shown on a real GPU (docs/gpu.md)."""
