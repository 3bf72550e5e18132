"""What the API answers with, one module a noun. The shape of an answer stands in its model and nowhere else: routes
build the model, which checks what it is given, FastAPI documents it, and pydantic writes it as JSON."""
