"""What jobs bring along or are given: their code, the data sets of the operator."""
