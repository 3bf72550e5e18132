"""Runtime for tasks in containers of one Docker Engine."""
