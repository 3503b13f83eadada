"""Studies of many experiments: comparisons of backends, load-latency curves, sweeps."""
