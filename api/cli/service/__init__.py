"""Commands that run the service, or work on its data folder while it is stopped."""
