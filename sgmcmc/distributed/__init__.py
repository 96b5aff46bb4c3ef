"""Chains on the workers of a Dask cluster: for `client=` of a sampler, an extra `sgmcmc[dask]`.

A step of a chain takes microseconds, and a message over a network takes longer. So work travels in
rounds: a worker gets the state of some chains, makes a second or more of iterations, and returns
their draws and the new state. A round is a pure function. If a worker is lost, another one makes
the round again, and the draws are the same.
"""

from .chains import Spread as Spread
from .sharded import Visits as Visits
