"""Several dynamics in one chain, each for its own parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from .. import checks
from ..estimators import Estimate
from ..gibbs import Gibbs
from ..random import folded
from . import Dynamics, HasSpaces, Noise
from .probabilities import Counter, MovesByCounts

PARTS = 1 << 9  # the first of the numbers that are folded into keys, one for each parameter


def blocks(name: str, value: Any, params: Any) -> dict[str, Any]:
    """Check that each parameter has a sampler."""
    wanted = "the samplers of the parameters, such as {'omega': SCIR(alpha=0.1), 'mu': SGLD()}"
    checks.named(name, value, wanted)
    checks.same_names(name, value, params)
    found: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for key in params:
        block = value[key]
        if not isinstance(block, (Dynamics, Gibbs)) or isinstance(block, Mixed):
            raise TypeError(
                f"{name}[{key!r}] must be SCIR(...), SGRLD(...), SGLD(), SGHMC(...), SGGMC(...) or "
                f"Gibbs(...), not {checks.described(block)}"
            )
        try:
            if isinstance(block, Gibbs):
                checks.keyed_function("draw", block.draw, params)
                found[key] = block
                continue
            found[key] = checks.own(block, {key: params[key]})
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}[{key!r}]: {error}") from None
        if getattr(found[key], "learning_rate", None) is not None:
            raise ValueError(f"{name}[{key!r}]: learning_rate must be left out: give its stepsize")
        if found[key].inner_steps > 1:
            lengths[key] = found[key].inner_steps
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name} must have equal L, not {lengths}")
    return found


@dataclass(frozen=True)
class Mixed(Dynamics):
    """Several samplers in one chain, each for its own parameters.

    For example, `SCIR` or `SGRLD` moves probabilities, `SGGMC` directions, and `SGLD`, `SGHMC` or
    `SGNHT` real parameters. They have one log likelihood and the same minibatches: all move at
    once, from the same estimate at the same point. If SGHMC makes several steps in an iteration
    (`L`), the others make as many. After each step, the parameters of `Gibbs` are drawn one after
    the other, given the new values of the rest.

    `alpha` of `SCIR` and `SGRLD` is the prior of their parameter: leave it out of `log_prior`.
    """

    blocks: dict[str, Any] = checks.required(
        blocks,
        "The sampler of each parameter: `SCIR`, `SGRLD`, `SGLD`, `SGHMC`, `SGGMC` or others, with "
        "its own arguments, such as `{'omega': SCIR(alpha=0.1), 'mu': SGLD()}`, or `Gibbs`.",
    )

    @property
    def white_noise(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return any(
            block.white_noise for block in self.blocks.values() if isinstance(block, Dynamics)
        )

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return any(
            block.needs_rows for block in self.blocks.values() if isinstance(block, Dynamics)
        )

    @property
    def inner_steps(self) -> int:
        return max((block.inner_steps for block in self.blocks.values()), default=1)

    def of_each(self, call: Callable, *nests: Any) -> dict[str, Any]:
        """Return call(block, {name: value}, ...) for each block and its own parameter."""
        return {
            k: call(block, *({k: nest[k]} for nest in nests)) for k, block in self.blocks.items()
        }

    def spaces(self, params: Any) -> Any:
        found: dict[str, Any] = {}
        for k, block in self.blocks.items():
            if isinstance(block, HasSpaces):
                found |= block.spaces({k: params[k]})
        return found

    def counters(self) -> list[Counter]:
        return [
            each._replace(label=f"blocks[{k!r}].{each.label}", names=(k,))
            for k, block in self.blocks.items()
            if isinstance(block, MovesByCounts)
            for each in block.counters()
        ]

    def noise(self, x: Any) -> Noise:
        each = self.of_each(lambda block, x: block.noise(x), x)
        return Noise(
            {k: noise.normals for k, noise in each.items()},
            {k: noise.uniforms for k, noise in each.items()},
            any(noise.key is True for noise in each.values()),
            any(noise.refresh for noise in each.values()),
        )

    def own(self, name: str, noise: Noise) -> Noise:
        """Return the part of the noise that is for one parameter."""
        key = noise.key
        if tf.is_tensor(key):
            key = folded(key, PARTS + list(self.blocks).index(name))
        return noise._replace(normals=noise.normals[name], uniforms=noise.uniforms[name], key=key)

    def init(self, x: Any, noise: Noise, h: Any) -> dict[str, Any]:
        return self.of_each(lambda block, x, h: block.init(x, self.own(*x, noise), h), x, h)

    def begin(self, chain: Any, noise: Noise, h: Any) -> dict[str, Any]:
        def begin(block: Dynamics, chain: Any, h: Any) -> Any:
            return block.begin(*chain.values(), self.own(*chain, noise), h)

        return self.of_each(begin, chain, h)

    def update(self, chain: Any, estimate: Estimate, noise: Noise, h: Any) -> dict[str, Any]:
        def update(block: Dynamics, chain: Any, gradient: Any, h: Any) -> Any:
            own = estimate._replace(gradient=gradient)
            if block.needs_rows:
                own = own._replace(extra={k: estimate.extra[k] for k in gradient})
            return block.update(*chain.values(), own, self.own(*chain, noise), h)

        return self.of_each(update, chain, estimate.gradient, h)

    def position(self, chain: Any) -> dict[str, Any]:
        return only(self.of_each(lambda block, chain: block.position(*chain.values()), chain))

    def draw(self, chain: Any, h: Any) -> tuple[Any, dict[str, Any]]:
        each = self.of_each(lambda block, chain, h: block.draw(*chain.values(), h), chain, h)
        stats: dict[str, Any] = {}
        for _, own in each.values():
            for what, by_name in own.items():
                stats[what] = {**stats.get(what, {}), **by_name}
        return only({k: x for k, (x, _) in each.items()}), stats


def only(nests: dict[str, Any]) -> dict[str, Any]:
    """Replace dicts that have one entry by that entry."""
    return {k: nest[k] for k, nest in nests.items()}
