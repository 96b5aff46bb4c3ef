"""Divide and conquer: combine draws from the subposteriors of shards into draws of the posterior.

The rows are cut into W shards. The subposterior of a shard is its likelihood times the prior to the
power 1/W, so that the posterior is the product of all subposteriors. Their chains run independently
of each other, and only the draws are brought together.

`parts.py` makes matrices of draws. `gaussian.py`, `kde.py` and `pairs.py` have the methods, and
`shards.py` samples the subposteriors.
"""

from .gaussian import consensus as consensus
from .gaussian import gaussian_product as gaussian_product
from .kde import kde_product as kde_product
from .pairs import weierstrass as weierstrass
from .shards import subposteriors as subposteriors
