"""Several samplers in one chain, each for parameters of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from .. import checks, tree
from ..random import folded, normals
from . import DRAW, START, STEP, Chain, Dynamics, Keyed


@dataclass(frozen=True)
class Gibbs(Dynamics):
    """A parameter that is drawn by a function of the user's, given all others and the minibatch.

    That is a Gibbs step where its conditional distribution does not depend on the data, as of a
    prior's parameters. Where it does, the function has a part of the rows only.

    Parameters
    ----------
    draw : function of (params, data, key)
        Returns a draw of the parameter from its conditional distribution, of the parameter's shape.
        `data` are the rows of the minibatch, not scaled to all; `key` is for the functions of
        `sgmcmc.random`, or a seed for those of `tf.random.stateless_*`, which are much slower when
        compiled.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> def log_prior(params):
    ...     return -params["precision"] * tf.reduce_sum(params["mean"] ** 2) / 2
    >>> def draw(params, data, key):  # of a prior Gamma(1, 1), given 50 means
    ...     rate = 1 + tf.reduce_sum(params["mean"] ** 2) / 2
    ...     return sgmcmc.random.gammas(key, tf.constant(1 + 50 / 2)) / rate
    >>> rng = np.random.default_rng(1)
    >>> dataset = {"x": rng.normal(0, 3, 50) + rng.normal(size=(1000, 50))}
    >>> draws = sgmcmc.mixed(
    ...     log_lik, dataset, {"mean": np.zeros(50), "precision": 1.0}, 1e-4,
    ...     {"mean": sgmcmc.SGLD(), "precision": sgmcmc.Gibbs(draw)}, log_prior,
    ...     minibatch_size=100, n_iters=2000, burn_in=500, seed=1, verbose=False,
    ... )
    >>> bool(0.08 < draws["precision"].mean() < 0.2)
    True
    """

    draw: Callable[[dict, dict, Any], Any] = checks.required(
        checks.keyed_function, "A function of (params, data, key)."
    )

    def space(self, params: Any) -> Any:
        return tree.map(lambda _: "any", params)

    def free(self, params: Any) -> Collection[str]:
        return params

    def advice(self, name: str) -> str:
        return "Most often draw is at fault: what it returned is not finite, or not possible there"

    def functions(self) -> list[Keyed]:
        return [Keyed("draw", self.draw, counts=False)]

    def update(self, chain: Chain, gradient: Any, noise: tf.Tensor, h: Any) -> Chain:
        return chain


@dataclass(frozen=True)
class Mixed(Dynamics):
    """Several samplers in one chain, each for parameters of its own.

    Probabilities by `SCIR` or `SGRLD` beside real parameters by `SGLD`, `SGHMC` or `SGNHT`, from
    one log likelihood and the same minibatches: all move at once, from the same estimate at the
    same point. With steps of SGHMC inside an iteration (`L`), the others take as many. Then the
    parameters of `Gibbs` are drawn one after the other, given the new values of the rest.

    `alpha` of `SCIR` and `SGRLD` is the prior of their parameter: leave it out of `log_prior`.
    """

    keyed = True
    example = (
        'stepsize={"omega": 0.5, "mu": 1e-4},\n'
        '...     blocks={"omega": sgmcmc.SCIR(alpha=0.1), "mu": sgmcmc.SGLD()}'
    )
    example_model = "mixed"

    blocks: dict[str, Any] = checks.required(
        checks.blocks,
        "The sampler of each parameter: `SCIR`, `SGRLD`, `SGLD`, `SGHMC` or `SGNHT` with its own "
        "arguments, such as `{'omega': SCIR(alpha=0.1), 'mu': SGLD()}`, or `Gibbs`.",
    )

    @property
    def inner_steps(self) -> int:
        return max(block.inner_steps for block in self.blocks.values())

    @property
    def noises(self) -> int:
        return max(block.noises for block in self.blocks.values())

    def advice(self, name: str) -> str:
        block = self.blocks.get(name.split("/")[0])
        return block.advice(name) if block else super().advice(name)

    def of_each(self, call: Callable, *nests: Any) -> dict[str, Any]:
        """What each block says of its own parameter: call(block, {name: value}, ...)."""
        return {
            k: call(block, *({k: nest[k]} for nest in nests)) for k, block in self.blocks.items()
        }

    def space(self, params: Any) -> Any:
        return only(self.of_each(lambda block, p: block.space(p), params))

    def prior(self, params: Any) -> tuple[Any, Any] | None:
        gradient = tree.map(tf.zeros_like, params)
        value = tf.zeros((), tree.leaves(gradient)[0].dtype)
        for own in self.of_each(lambda block, p: block.prior(p), params).values():
            if own:
                value, gradient = value + own[0], {**gradient, **own[1]}
        return value, gradient

    def free(self, params: Any) -> Collection[str]:
        return [k for each in self.of_each(lambda b, p: b.free(p), params).values() for k in each]

    def functions(self) -> list[Keyed]:
        return [
            each._replace(label=f"blocks[{k!r}].{each.label}", names=(k,))
            for k, block in self.blocks.items()
            for each in block.functions()
        ]

    def steps(self, stepsize: Any) -> Any:
        if not isinstance(stepsize, Mapping):
            return stepsize
        return {**{k: 1.0 for k, b in self.blocks.items() if isinstance(b, Gibbs)}, **stepsize}

    def placed(self, starts: Any, statistic: Any) -> Any:
        statistic = statistic or starts
        return only(self.of_each(lambda b, p, s: b.placed(p, s), starts, statistic))

    def noise(self, block: Dynamics, theta: Any, key: tf.Tensor, use: int) -> tf.Tensor:
        """What a block takes as noise: a key of its own, or normals."""
        key, x = folded(key, use + list(self.blocks).index(*theta)), tree.leaves(theta)[0]
        if block.keyed:
            return key
        chains = x.shape[0]
        return normals(key, (chains, tree.size(theta) // chains), 0, x.dtype)

    def start(self, theta: Any, noise: tf.Tensor, h: Any) -> dict[str, Any]:
        def start(block: Dynamics, theta: Any, h: Any) -> Any:
            return block.start(theta, self.noise(block, theta, noise, START), h)

        return self.of_each(start, theta, h)

    def begin(self, chain: Any, noise: tf.Tensor, h: Any) -> Any:
        def begin(block: Dynamics, chain: Any, h: Any) -> Any:
            (chain,) = chain.values()
            return block.begin(chain, self.noise(block, block.position(chain), noise, START), h)

        return self.of_each(begin, chain, h)

    def update(self, chain: Any, gradient: Any, noise: tf.Tensor, h: Any) -> Any:
        def update(block: Dynamics, chain: Any, gradient: Any, h: Any) -> Any:
            noises = self.noise(block, gradient, noise, STEP)
            return block.update(*chain.values(), gradient, noises, h)

        return self.of_each(update, chain, gradient, h)

    def finish(self, chain: Any, rows: Any, noise: tf.Tensor) -> Any:
        """The steps of Gibbs blocks."""
        for i, (name, block) in enumerate(self.blocks.items()):
            if isinstance(block, Gibbs):
                old, key = self.position(chain), folded(noise, DRAW + i)
                new = tree.each(lambda *each, b=block: b.draw(*tree.copies(*each)), old, rows, key)
                new = tree.map(lambda x, y: tf.cast(x, y.dtype), new, old[name])
                chain = {**chain, name: Chain({name: new})}
        return chain

    def position(self, chain: Any) -> Any:
        return only(self.of_each(lambda block, c: block.position(*c.values()), chain))

    def report(self, chain: Any, h: Any) -> dict[str, Any]:
        each = self.of_each(lambda block, c, h: block.report(*c.values(), h), chain, h)
        traces: dict[str, Any] = {}
        for of_block in each.values():
            for what, by_name in of_block.items():
                traces[what] = {**traces.get(what, {}), **by_name}
        return traces


def only(nests: dict[str, Any]) -> dict[str, Any]:
    """Of dicts with one entry, that entry."""
    return {k: nest[k] for k, nest in nests.items()}
