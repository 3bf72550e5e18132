"""Reports of workers about their training, and the results derived from them."""
