"""TLS: the certificate of the service, and connections with and without it."""
