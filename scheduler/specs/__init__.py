"""Input models of users: jobs, hosts, webhooks. They are validated only here."""
