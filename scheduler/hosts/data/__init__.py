"""Transfer of data sets, models and outputs between service and hosts."""
