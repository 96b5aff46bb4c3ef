"""Speed and memory, measured beside the peers: `python -m benchmarks --help`."""
