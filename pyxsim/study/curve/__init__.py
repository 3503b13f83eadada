"""Load-latency curves and saturation."""
