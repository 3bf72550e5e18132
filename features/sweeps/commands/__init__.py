"""Commands for experiments and advice."""
