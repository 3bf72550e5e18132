"""The code that jobs bring along: archives of one form, where they are kept, and how they are fetched by git."""
