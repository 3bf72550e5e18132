"""The adaptive batch: what is measured for it, how it is chosen, changed, and kept from doing harm."""
