"""Job files: reader, writer, and the command `init`."""
