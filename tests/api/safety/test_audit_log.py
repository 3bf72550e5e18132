"""Every route that changes something leaves an event with its actor and their address."""

from __future__ import annotations

from apis import FIVE_KEYS

V1 = "/api/v1"
TOKEN = "correct-horse-battery"
SPEC = {key: value for key, value in FIVE_KEYS.items() if key != "name"}
METRIC = {"name": "loss", "goal": "min"}
CHANGES_NOTHING = {
    ("POST", f"{V1}/jobs:preview"): "it only asks",
    ("POST", f"{V1}/advise"): "it only asks",
    ("POST", f"{V1}/post"): "the original's preview of a body",
    ("POST", f"{V1}/code"): "content that nothing uses yet: the job that uses it leaves the event",
    ("POST", f"{V1}/content"): "content that no version uses yet",
    ("PUT", f"{V1}/content/sha256"): "content that no version uses yet",
    ("POST", f"{V1}/reports"): "a job reports, with its own token",
    ("POST", f"{V1}/reports/membership"): "a job reports, with its own token",
    ("POST", f"{V1}/logins"): "anybody may ask; the approval and the token leave events",
    ("POST", f"{V1}/notify/name/test"): "it sends a message, and changes nothing",
    ("POST", f"{V1}/webhooks/webhook_id/test"): "it sends a message, and changes nothing",
}
