"""Parts of tables: numbers, rows and where they were measured."""

from __future__ import annotations


def where(result: dict) -> str:
    """Machine and date."""
    m = result["machine"]
    return (
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, "
        f"Python {m['python']}, {m['date']}."
    )


def grid(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(x: float) -> str:
    """Three digits."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def with_spread(found: dict | None, scale: float) -> str:
    """Median, and half the range in percent."""
    if not found:
        return ""
    half = (found["high"] - found["low"]) / 2 / found["median"]
    return f"{number(scale * found['median'])} ±{100 * half:.0f} %"
