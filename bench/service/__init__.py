"""The running service: its cost, its speed, its page."""
