"""Planning: snapshots for policies, layers around policies, placement, and reconciliation. Pure."""
