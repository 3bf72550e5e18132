"""Jobs that sentences name."""

from schedulearn.scheduler.core.named_jobs import named_jobs, without_jobs

ADA, BEN = "0txbq3m8ka", "0txbq3m8kb"


def test_jobs_of_others_are_left_out_with_what_is_said_of_them() -> None:
    for told, instead in (
        (f"It waits behind {ADA}, which needs 2 GPUs. Then it starts.", "It waits behind another job. Then it starts."),
        (f"It waits for job {ADA} (running) to end.", "It waits for another job to end."),
        (f"It shrinks to make room for {ADA}.", "It shrinks to make room for another job."),
        (f"It may outlive {BEN}, and hold up {ADA}.", f"It may outlive {BEN}, and hold up another job."),
        (f"schedulearn-{ADA}-1-0 on h1 was paused.", "another job on h1 was paused."),
        (f"job {ADA} gets 3 GPUs on h1, which has 2", "another job gets 3 GPUs on h1, which has 2"),
    ):
        assert (without_jobs(told, {BEN}), named_jobs(told) - {BEN}) == (instead, {ADA})


def test_what_only_looks_like_an_id_stays() -> None:
    for told in ("sha256:0txbq3m8ka0", "a 0.1234567890 of it", "build-0txbq3m8ka", "0TXBQ3M8KA", ""):
        assert (without_jobs(told, ()), named_jobs(told)) == (told, set())
