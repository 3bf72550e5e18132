"""The scheduling loop and the use cases of people and programs."""
