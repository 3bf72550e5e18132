"""Models of training speed and of its worth, in NumPy.

Job containers import it too. They are often old, so it uses Python 3.8 syntax.
"""
