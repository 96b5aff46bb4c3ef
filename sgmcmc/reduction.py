"""Zero-variance control variates: posterior means with less Monte Carlo error, from gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import checks, tree
from .draws import Draws
from .polynomials import EACH, FOLDS, NUMBERS, Columns, Folds, Polynomials, count
from .ridge import Factors, fitted
from .summary import Summary, quantities, summary_of

MOST = 1000  # functions, whose products take 8 MB in each of about 20 sets of draws
SERIES = 2**24  # values of quantities that are kept at a time, before and after


def zero_variance(
    draws: Draws,
    degree: int = 1,
    of: Sequence[str] | Mapping[str, Callable | np.ndarray] | Callable[[dict], Any] | None = None,
) -> Summary:
    """Estimate posterior means with less Monte Carlo error, by zero-variance control variates.

    The draws must be from a run with `keep_gradients=True`. With f = −log π, the function

        h = −½ΔQ + ½∇Q·∇f̂

    has mean zero for every polynomial Q. Of each quantity g, the mean of g + aᵀh is returned, where
    h are the functions of all monomials up to a degree, and a = −Var(h)⁻¹Cov(h, g) makes the
    variance small. If the posterior is Gaussian and gradients are exact, no variance is left of
    polynomials of that degree. Gradients from minibatches are noisy, which limits what is gained:
    little is with `sgld` on large data, and much with `sgldcv`, whose gradients become no noisier
    in proportion.

    The coefficients of each draw are from other draws: the draws are cut into five parts, and those
    of one part get coefficients from the other four. So no estimate is biased by its own fit. They
    are from ridge regression, whose penalty is chosen for each quantity by cross-validation within
    these four parts. Where nothing is gained, coefficients of 0 are chosen.

    This does not remove the bias of draws. Of degree 1, h has mean zero under the law of a chain
    with constant step size, too. Of degree 2, its mean is of the order of the step size, as is the
    bias of the draws, so that estimates may move by about as much.

    Where parameters are constrained, Q is a polynomial of their free coordinates. Coordinates are
    divided by about their standard deviations, which is another choice of h where Q has degree 2.

    Mira, Solgi and Imparato (2013), Zero variance Markov chain Monte Carlo for Bayesian estimators,
    Statistics and Computing; Baker (2018), thesis, section 3.4, where two signs of h are wrong;
    South, Oates, Mira and Drovandi (2022), Regularized zero-variance control variates, Bayesian
    Analysis.

    Parameters
    ----------
    draws : Draws
        Draws with gradients, from memory or from a folder.
    degree : {1, 2}
        The degree of Q: 1 has as many coefficients as there are parameters p, and 2 has p(p + 3)/2.
    of : list of str, dict, or function, optional
        The quantities. Names, as in `Draws.summary`: parameters, test functions, and parts and
        single numbers of these. Or a dict of functions: each gets a dict of arrays, whose first
        axis are some draws, and returns an array with the same first axis. Entries of the dict may
        be arrays in the form of the draws. Or one function, which returns an array or a dict of
        arrays. By default all parameters and test functions.

    Returns
    -------
    Summary
        A dict of columns, which prints as a table, with the methods of `Draws.summary`: `mean` and
        its Monte Carlo standard error `mcse`, which takes autocorrelation into account;
        `plain_mean` and `plain_mcse`, the same without control variates; and `variance_ratio`, the
        variance of g + aᵀh over that of g.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.linspace(-1, 3, 1000)}
    >>> draws = sgmcmc.sgldcv(
    ...     log_lik, dataset, {"mean": 0.0}, 1e-4, n_iters=2000, keep_gradients=True, seed=1,
    ...     verbose=False,
    ... )
    >>> found = sgmcmc.zero_variance(draws)
    >>> abs(float(found["mean"][0]) - 1) < 1e-5, bool(found["variance_ratio"][0] < 1e-3)
    (True, True)
    >>> squares = sgmcmc.zero_variance(draws, 2, {"square": lambda some: some["mean"] ** 2})
    >>> squares.names
    ['square']
    """
    if isinstance(degree, bool) or not isinstance(degree, (int, np.integer)):
        raise TypeError(f"degree must be 1 or 2, not {checks.described(degree)}")
    if degree not in (1, 2):
        raise ValueError(f"degree must be 1 or 2, not {degree}")
    data = data_of(draws, degree, of)
    factors = Factors(data.controls.count, ((fold, h) for fold, _, h, _ in data.blocks()))
    width = data.values.width
    size = max(1, SERIES // (2 * data.folds.chains * data.folds.n))
    found = [
        estimated(data, factors, slice(start, min(start + size, width)))
        for start in range(0, width, size)
    ]
    return Summary(data.values.names, {k: np.concatenate([x[k] for x in found]) for k in found[0]})


class Data(NamedTuple):
    """The functions h and the quantities of all draws, and the folds of these."""

    folds: Folds
    controls: Polynomials
    values: Values

    def blocks(self) -> Iterator[tuple[int, tuple[slice, slice], np.ndarray, np.ndarray]]:
        """Yield fold, chains and draws, h and quantities of some draws: (chains, draws, ...)."""
        each = self.folds.chains * (2 * self.controls.count + self.values.width)
        for draws, parts in self.folds.parts(max(1, NUMBERS // each)):
            h, g = self.controls.read(draws), self.values.read(draws)
            for part in parts:
                yield part.fold, (part.chains, part.draws), h[part.chains], g[part.chains]


def data_of(draws: Draws, degree: int, of: Any) -> Data:
    """Check draws, and lay out what is read of them."""
    if not isinstance(draws, Draws):
        raise TypeError(f"draws must be what a sampler returned, not {checks.described(draws)}")
    gradients = draws.stats.get("gradients")
    if not gradients:
        raise ValueError(
            "draws must have gradients: run the sampler with keep_gradients=True, and keep at "
            "least one parameter"
        )
    chained = draws.settings.get("n_chains") is not None
    x = draws.stats.get("coordinates") or {k: draws[k] for k in gradients if k in draws}
    shapes = [[a.shape for a in tree.leaves(nest)] for nest in (gradients, x)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"draws must have a gradient for each number of a draw, but {list(gradients)} have "
            f"shapes {shapes[0]}, and the draws {shapes[1]}"
        )
    chains, n = shapes[0][0][:2] if chained else (1, shapes[0][0][0])
    least = EACH if chains >= FOLDS else EACH * FOLDS
    if n < least:
        raise ValueError(
            f"draws must have at least {least} of each of {chains} chains, to estimate and to "
            f"check coefficients, not {n}"
        )
    columns = Columns(x, chained), Columns(gradients, chained)
    some = count(columns[0].width, degree)
    fewer = "degree=1, or " if degree == 2 else ""
    if some > MOST:
        raise ValueError(
            f"degree = {degree} has {some:,} coefficients for {columns[0].width:,} parameters, and "
            f"at most {MOST:,} can be estimated: take {fewer}gradients of fewer parameters (keep=)"
        )
    if chains * n <= some:
        raise ValueError(
            f"draws must be more than the {some:,} coefficients that degree = {degree} has, but "
            f"there are {chains * n:,}: take {fewer}more draws"
        )
    for what, each in zip(("draws", "gradients"), columns):
        check_finite(what, each, chains, n)
    folds = Folds(chains, n)
    return Data(folds, Polynomials(*columns, folds, degree), Values(draws, of, chained, n))


def check_finite(what: str, x: Columns, chains: int, n: int) -> None:
    """Check that there is no NaN and no infinite number."""
    size = max(1, NUMBERS // (chains * x.width))
    for start in range(0, n, size):
        wrong = ~np.isfinite(x.read(slice(start, start + size))).all(axis=(0, 1))
        if wrong.any():
            name = x.label(int(np.argmax(wrong)))
            raise ValueError(f"{what} of {name!r} must be finite, but some are NaN or infinite")


class Values:
    """The quantities whose means are wanted, computed for some draws at a time."""

    def __init__(self, draws: Draws, of: Any, chained: bool, n: int) -> None:
        self.chained, self.draws = chained, dict(draws)
        self.functions: dict[str, Callable] = {}
        self.arrays: dict[str, Any] = {}
        self.parts: list[tuple[str, range]] = []
        if of is None or isinstance(of, (str, list, tuple)):
            self.named(of)
        else:
            self.given(of, n)
        first = self.read(slice(0, 1))
        varies = np.zeros(self.width, bool)
        size = max(1, NUMBERS // (first.shape[0] * self.width))
        for start in range(0, n, size):
            part = self.read(slice(start, start + size))
            if not np.isfinite(part).all():
                i = int(np.argmin(np.isfinite(part).all(axis=(0, 1))))
                raise ValueError(f"of: {self.names[i]} must be finite, but is NaN or infinite")
            varies |= (part != first[:1]).any(axis=(0, 1))
        if not varies.all():
            raise ValueError(
                f"of: {self.names[int(np.argmin(varies))]} must vary from draw to draw, but is "
                "constant: leave it out"
            )

    def named(self, names: Any) -> None:
        """Take some of the draws, by name."""
        arrays = dict(zip(tree.names(self.draws), tree.leaves(self.draws)))
        shapes = {k: x.shape if self.chained else (1, *x.shape) for k, x in arrays.items()}
        self.parts, self.names = quantities(shapes, names, "of"), []
        self.arrays = {path: arrays[path] for path, _ in self.parts}
        for path, columns in self.parts:
            self.names += labels(path, shapes[path][2:], columns)
        self.width = len(self.names)

    def given(self, of: Any, n: int) -> None:
        """Take functions of the draws, and arrays beside them."""
        if callable(of):
            of = {"of": of}
        if not isinstance(of, Mapping) or not of:
            raise TypeError(
                "of must be a list of names, a dict of functions or arrays by name, or a "
                f"function of the draws, not {checks.described(of)}"
            )
        lead = tree.leaves(self.draws)[0].shape[: 1 + self.chained]
        for name, value in of.items():
            if callable(value):
                self.functions[str(name)] = value
                continue
            x = checks.array(f"of[{name!r}]", value)
            if x.shape[: len(lead)] != lead:
                raise ValueError(
                    f"of[{name!r}] must have the leading axes of the draws, {lead}, not shape "
                    f"{x.shape}"
                )
            self.arrays[str(name)] = x
        first, self.names = self.computed(slice(0, 1)), []
        for path, x in first.items():
            self.names += labels(path, x.shape[2:], range(int(np.prod(x.shape[2:]))))
        self.width = len(self.names)

    def computed(self, draws: slice) -> dict[str, np.ndarray]:
        """Return arrays (chains, draws, ...) by name, those of functions and those given."""
        found = {k: self.some(x, draws) for k, x in self.arrays.items()}
        if not self.functions:
            return found
        whole = tree.map(lambda x: self.some(x, draws), self.draws)
        lead = tree.leaves(whole)[0].shape[:2]
        flat = tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)
        for name, fn in self.functions.items():
            try:
                value = fn(*tree.copies(flat))
            except Exception as error:
                raise ValueError(f"of[{name!r}] raised {checks.summary(error)}") from error
            for k, x in value.items() if isinstance(value, Mapping) else [(name, value)]:
                x = checks.array(f"of[{name!r}]", x)
                if x.shape[:1] != (lead[0] * lead[1],):
                    raise ValueError(
                        f"of[{name!r}] must return an array whose first axis are the draws: of "
                        f"{lead[0] * lead[1]} draws it returned shape {x.shape}"
                    )
                found[str(k)] = x.reshape(*lead, *x.shape[1:])
        return found

    def some(self, x: Any, draws: slice) -> np.ndarray:
        """Some draws of an array: (chains, draws, ...)."""
        return np.asarray(x[:, draws] if self.chained else x[draws][None])

    def read(self, draws: slice) -> np.ndarray:
        """Return (chains, draws, quantities) in float64."""
        found = {
            k: x.reshape(*x.shape[:2], -1).astype(float) for k, x in self.computed(draws).items()
        }
        if self.parts:
            each = [found[path][..., k.start : k.stop] for path, k in self.parts]
        else:
            each = list(found.values())
        return np.concatenate(each, axis=2)


def labels(path: str, shape: tuple[int, ...], columns: range) -> list[str]:
    """The names of some of the numbers in an array, as in `Draws.summary`."""
    if not shape:
        return [path]
    return [path + str([int(i) for i in np.unravel_index(j, shape)]) for j in columns]


def estimated(data: Data, factors: Factors, some: slice) -> dict[str, np.ndarray]:
    """The columns of the table for some of the quantities."""
    m, q = data.controls.count, some.stop - some.start
    shift = data.values.read(slice(0, 1)).mean(axis=(0, 1))[some]
    sums, squares = np.zeros((FOLDS, q)), np.zeros((FOLDS, q))
    products = np.zeros((FOLDS, m, q))
    for fold, _, h, g in data.blocks():
        h, g = h.reshape(-1, m), g[..., some].reshape(-1, q) - shift
        sums[fold] += g.sum(axis=0)
        squares[fold] += (g**2).sum(axis=0)
        products[fold] += h.T @ g
    coefficients = fitted(factors, sums, squares, products)
    before = np.empty((q, data.folds.chains, data.folds.n))
    after = np.empty_like(before)
    for fold, at, h, g in data.blocks():
        before[:, at[0], at[1]] = np.moveaxis(g[..., some], 2, 0)
        after[:, at[0], at[1]] = np.moveaxis(g[..., some] + h @ coefficients[fold], 2, 0)
    plain, reduced = summary_of(before), summary_of(after)
    return {
        "mean": reduced["mean"],
        "mcse": np.where(reduced["sd"] > 0, reduced["mcse"], 0),
        "plain_mean": plain["mean"],
        "plain_mcse": plain["mcse"],
        "variance_ratio": (reduced["sd"] / plain["sd"]) ** 2,
    }
