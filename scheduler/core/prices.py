"""Prices of GPU-hours."""

from __future__ import annotations

from collections.abc import Mapping

ANY_TYPE = "*"
"""Key in prices for GPUs of a type that is not named."""


def price_of(prices: Mapping[str, float], gpu_type: str) -> float | None:
    return prices.get(gpu_type, prices.get(ANY_TYPE))


def cost_of(hours_of: Mapping[str, float], prices: Mapping[str, float]) -> float | None:
    """Return the cost of `hours_of`, GPU-hours by type; None if the price of one of them is not known."""
    cost = 0.0
    for gpu_type, hours in hours_of.items():
        price = price_of(prices, gpu_type)
        if price is None:
            return None
        cost += price * hours
    return cost if prices else None
