"""What both clients ask of a service, written once: `Client` gets answers, `AsyncClient` what is awaited."""
