"""TLS: the certificate of the service, and connections with it and without."""
