"""What is said before a run whose step sizes were chosen."""

from __future__ import annotations

from typing import Any

from ..progress import duration


def line(report: dict[str, Any], n_iters: int | None, seconds: float | None) -> str:
    """What was found and what to expect, given the seconds that an iteration takes, if known."""
    noise, stepsize, inflation, ess = (report[k] for k in ("noise", "stepsize", "inflation", "ess"))
    wrong = max(inflation[2] - 1, 1 - inflation[0])
    each = 1 / max(ess[0], 1e-300)
    said = (
        f"{report['directions']:,} directions; gradient noise {between(noise)}, step sizes "
        f"{between(stepsize)} (posterior variance: 1); variance within {wrong:.1%}; slowest "
        f"direction ({', '.join(report['slowest'])}): an effective draw in {each:,.0f} iterations"
        f"{after(seconds, each)}"
    )
    if n_iters is None:
        return said
    return f"{said}; about {n_iters / each:,.0f} in all {n_iters:,}{after(seconds, n_iters)}"


def after(seconds: float | None, count: float) -> str:
    """How long so many iterations take, after a comma; nothing if that is not known."""
    return "" if seconds is None else f", {duration(count * seconds)}"


def between(spread: list[float]) -> str:
    """The smallest and the largest of some numbers."""
    low, _, high = spread
    return f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
