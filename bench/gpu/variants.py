"""Ways to make a step. Apart, since jobs of the service import this, and have only the SDK of Schedulearn."""

VARIANTS = ("plain", "bf16", "fp16", "channels-last", "graph", "compile")
