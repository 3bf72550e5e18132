"""From what is known of the cluster to who runs where: what policies see, and what is made of their plans. Pure."""
