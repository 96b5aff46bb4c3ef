"""How far draws can be trusted: what `diagnose` looks at, a file for each idea.

- `evidence.py`: the draws in free coordinates.
- `scores.py`: gradients of the log posterior at draws, exact ones and those of the sampler.
- `width.py`: the variance of the draws over that of the posterior, by Stein's identity; and what
  it must be, by an identity that each sampler's stationary law fulfils on any posterior.
- `expected.py`: what step size and gradient noise must do to the variance, if it is Gaussian.
- `discrepancy.py`: the kernel Stein discrepancy, and a test of it.
- `halving.py`: a chain with half the step.
- `levels.py`: how large a difference must be before it is reported.
- `findings.py`: the differences in plain words, with what to change.
- `report.py`, `plot.py`: the table and the picture.
"""
