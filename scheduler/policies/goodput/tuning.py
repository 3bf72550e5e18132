"""Constants of the goodput policy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Constants of the goodput policy that are no parameters of it.

    Each description ends with the source of the value. *Chosen* values were tried on workloads 1 to 3 of the bench, or
    set by judgement. *Numerical* values bound a search, or exceed everything that they are compared with. Tolerances of
    floating-point arithmetic are not listed here.
    """

    # Prices of GPUs
    slack: float = 0.9
    """Share of the balancing price that is charged. Jobs that gain by left-over GPUs get them. Chosen; no ADR."""
    calm_s: float = 7200.0
    """Seconds in which a crowd of jobs ends, by order of magnitude. Chosen; a longer time was worse: ADR 73."""
    later_guessed: float = 0.5
    """Minimum `later_price` of a job that does not report its run time: it may end at once. Chosen: ADR 73."""
    cost_price: float = 0.5
    """Price of a GPU under `cost`, relative to the weight of the job that would have it. Chosen: ADR 10."""
    untried_speedup: float = 2.0
    """Speedup on two GPUs, at a price floor, of a job that was measured on one GPU. Chosen: ADR 10."""

    # Guesses of remaining work
    young_gpu_s: float = 2400.0
    """GPU-seconds of attained service below which jobs count alike. Chosen; no ADR."""
    old_gpu_s: float = 36_000.0
    """GPU-seconds of attained service above which jobs count alike. Chosen; no ADR."""
    unknown_gpu_s: float = 80_000.0
    """Minimum GPU-seconds of guessed work while the work of another job is known. Short jobs finish soon; their run
    times then inform predictions for the family. Chosen; no ADR."""
    longest_gpu_s: float = 400_000.0
    """Maximum GPU-seconds of guessed work. Chosen; no ADR."""

    # Weights of jobs
    hesrpt_speedup: float = 0.6
    """p of the speedups k^p that heSRPT's weights assume. Chosen: ADR 10; measured in docs/policies.md."""
    equal_of_hesrpt: float = 0.2
    """Share of heSRPT's weights that is the same for all jobs. Chosen: ADR 10."""
    equal_share: float = 0.5
    """Share of the weights that is the same for all jobs if prices distinguish them as well. Chosen; no ADR."""
    last_weight: float = 4.0
    """Minimum weight of the job with the most work left, as a multiple of its later price. It gains less by waiting
    the higher that price is. Chosen: ADR 73."""
    ageing_s: float = 3600.0
    """Seconds of waiting that double the weight of a job. Chosen; no ADR."""
    priority_factor: float = 4.0
    """Weight of a job of priority 100, relative to priority 50. Chosen; no ADR."""

    # Restarts
    in_place_run: float = 5.0
    """Time that a job keeps its GPUs after a resize in place, as a multiple of what that costs. Chosen: ADR 71."""
    look_again_s: float = 1.0
    """Minimum seconds between two decisions, so that time advances however a clock rounds. Numerical."""
    ending_s: float = 0.1
    """Expected remaining seconds of a job that should have ended: it must go on somewhere. Numerical."""

    # Numbers of hosts
    high_utility: float = 0.65
    """Utility above which hosts are switched on, by default. Thesis of Aptanagi (2021)."""
    high_utility_of_cost: float = 0.80
    """The same under `cost` and `thesis-cost`. Thesis of Aptanagi (2021)."""

    # Deadlines
    late: float = 100.0
    """Cost of a choice that makes a protected job late, relative to delaying it on one GPU for as long. It exceeds the
    value of any speedup, and is less than the cost of stopping another job. Chosen; no ADR."""
    start_now: float = 4.0
    """Factor on the cost of waiting for a protected job that must start now, like a priority of 100. Chosen; no ADR."""
    headroom_here: float = 1.05
    """Minimum ratio of the time left to the time needed where a job is. Chosen; no ADR."""
    headroom: float = 1.25
    """The same elsewhere. The difference keeps a job from going back and forth. Chosen; no ADR."""
    growth: float = 4.0
    """Factor by which a job may become faster than on its maximum of today, once tried on more GPUs. Chosen; no ADR."""
    deadline_waits: float = 2.0
    """How often the time of a job on its minimum size must fit before its deadline, so that it may wait. Chosen; no
    ADR."""

    # Waiting
    due: float = 2.0
    """Waiting time, relative to its expected run time, after which weights no longer decide whether a job starts beside
    jobs of the other kind, rigid or elastic, that were submitted later. Chosen; no ADR."""

    # Costs beyond comparison
    waiting: float = 1e3
    """Cost of stopping a job altogether, relative to running it on one GPU. Numerical."""
    pinned: float = 1e9
    """Minimum cost of stopping a job that must stay as it is: more than other jobs can gain. Numerical."""
    least_speedup: float = 1e-6
    """Minimum speedup of a job where it stays: a job without progress may stay too. Numerical."""

    # Searches
    halvings: int = 30
    """Halvings in the search for the price of a GPU. Numerical."""
    halvings_at_once: int = 3
    """Halvings that share one evaluation of a small table. Numerical."""
    small_table: int = 1500
    """Jobs x choices up to which several prices take hardly longer than one. Numerical."""
    floor_halvings: int = 12
    """Halvings in the search for the price floor. Numerical."""
    pool_rounds: int = 3
    """Rounds over the GPU types in the search for their prices. Numerical: ADR 10."""
    pool_steps: int = 12
    """Halvings per GPU type and round. Numerical."""

    # Knapsack
    exact_cells: int = 1_000_000
    """Jobs x choices x states of the pools up to which the dynamic programme runs: about 8 ms. Numerical: ADR 10."""
    dual_halvings: int = 40
    """Maximum halvings of the common price, which then has nine digits. Numerical."""
    dual_levels: int = 16
    """Levels of temperature in the search for several prices. Numerical."""
    dual_steps: int = 2
    """Newton steps at each level. Numerical."""
    dual_cold: float = 1e-5
    """Last temperature, relative to costs. Numerical."""
    fills: int = 8
    """Maximum passes over left-over GPUs. Numerical."""
    milp_gap: float = 0.005
    """Gap to the bound above which HiGHS runs. On workload 1 with three GPU types, it changed 421 of 624 decisions of
    `default`; their mean cost fell by 7 %. Numerical: ADR 10."""
    milp_choices: int = 6_000
    """Jobs x choices up to which HiGHS runs: tens of milliseconds. Numerical."""
    milp_nodes: int = 50
    """Maximum nodes in HiGHS's tree: a time limit would make decisions depend on the machine. Numerical: ADR 10."""
