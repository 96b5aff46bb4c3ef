"""Draws on disk that survive a crash, and going on with the chain that made them.

- `files.py`: files that are put in place in one step, and a lock.
- `layout.py`: arrays in the Zarr format (version 2), which xarray and ArviZ read.
- `nests.py`: nests of tensors as files of plain arrays.
- `record.py`: the commit record, the one small file that says what is there.
- `identity.py`: what two runs must have in common for one to go on with the other.
- `writing.py`: the collector that stores the draws of a run.
- `reading.py`: `load_draws`, and arrays that are read when they are wanted.
- `resuming.py`: a sampler where another one stopped.
"""
