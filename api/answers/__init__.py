"""Response models of the API, one module per noun.

Only the model defines the schema of a response. A route builds the model, which validates its values. FastAPI documents
the model, and pydantic writes it as JSON.
"""
