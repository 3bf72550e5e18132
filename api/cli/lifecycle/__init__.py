"""Commands that act on submitted jobs: wait, cancel, resubmit and rm."""
