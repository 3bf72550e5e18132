"""References: our statistics beside those of statsmodels and scikit-learn."""
