"""Python clients of the API, plain and async."""
