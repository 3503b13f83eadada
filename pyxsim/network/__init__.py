"""L3: networks that carry messages. `protocol` says what the system layer may ask of one; the backends answer."""
