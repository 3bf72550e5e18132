"""What tasks and hosts took, minute by minute."""
