"""Open traffic: injection, observation and the steady state."""
