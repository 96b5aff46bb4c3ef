"""The kernel Stein discrepancy against plain sums, and what it tells apart."""

import numpy as np
import pytest

from sgmcmc import stein


def by_loops(x, s):
    """The V-statistic, one pair after the other, by numerical derivatives of the kernel."""

    def k(a, b):
        return (1 + ((a - b) ** 2).sum()) ** -0.5

    m, p = x.shape
    total, h = 0.0, 1e-4
    for i in range(m):
        for j in range(m):
            value = k(x[i], x[j]) * (s[i] @ s[j])
            for e in h * np.eye(p):
                by_x = (k(x[i] + e, x[j]) - k(x[i] - e, x[j])) / (2 * h)
                by_y = (k(x[i], x[j] + e) - k(x[i], x[j] - e)) / (2 * h)
                ends = [(a, b) for a in (1, -1) for b in (1, -1)]
                both = sum(a * b * k(x[i] + a * e, x[j] + b * e) for a, b in ends) / (4 * h * h)
                n = np.argmax(e)
                value += s[i][n] * by_y + s[j][n] * by_x + both
            total += value
    return np.sqrt(total) / m


def plain(x, s):
    """The same by the formula, for all pairs at once."""
    d = x[:, None] - x[None]
    r = (d**2).sum(axis=-1)
    u, p = 1 + r, x.shape[1]
    inner = ((s[:, None] - s[None]) * d).sum(axis=-1)
    k0 = u**-0.5 * (s @ s.T) + u**-1.5 * (inner + p) - 3 * r * u**-2.5
    return np.sqrt(k0.sum()) / len(x)


def test_against_derivatives_of_the_kernel():
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(2, 12, 3))
    assert stein.ksd(x, s) == pytest.approx(by_loops(x, s), rel=1e-5)


def test_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(333, 4))
    whole = stein.ksd(x, -x)
    assert whole == pytest.approx(plain(x, -x), rel=1e-5)
    monkeypatch.setattr(stein, "BYTES", 8 * 333 * 10)
    assert stein.ksd(x, -x) == pytest.approx(whole, rel=1e-9)


def test_it_tells_wrong_variances_and_means(seed):
    """Of exact draws, m KSD² has mean E k₀(x, x) = 2p; those of wrong laws are far above."""
    m, p = 2000, 5
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, p))
    expected = np.sqrt(2 * p / m)
    assert stein.ksd(x, -x) < 1.5 * expected
    for wrong in (1.15 * x, 0.85 * x, x + 0.15):
        assert stein.ksd(wrong, -wrong) > 1.5 * expected


def test_thinning_leaves_out_the_burn_in(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1000, 2))
    x[:150] += 10  # where no draw of the posterior is
    chosen = stein.thin(x, -x, 40)
    assert chosen.dtype.kind == "i"
    assert (chosen >= 150).all()
    assert stein.ksd(x[chosen], -x[chosen]) < stein.ksd(x[960:], -x[960:])


def test_one_dimension():
    x = np.linspace(-2, 2, 50)
    assert stein.ksd(x, -x) == pytest.approx(stein.ksd(x[:, None], -x[:, None]))
    assert stein.thin(x, -x, 3).shape == (3,)


@pytest.mark.parametrize(
    ("draws", "scores", "message"),
    [
        (np.zeros((3, 2)), np.zeros((3, 3)), "scores must have the shape of draws"),
        (np.zeros((3, 2, 2)), np.zeros((3, 2, 2)), r"draws must have shape \(m,\) or \(m, p\)"),
        (np.array([1.0, np.nan]), np.zeros(2), "draws must be finite"),
        (np.zeros(2), np.array([1.0, np.inf]), "scores must be finite"),
    ],
)
def test_bad_input(draws, scores, message):
    with pytest.raises(ValueError, match=message):
        stein.ksd(draws, scores)
    with pytest.raises(ValueError, match=message):
        stein.thin(draws, scores, 1)
