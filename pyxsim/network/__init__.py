"""L3: networks that carry messages. `protocol` is the contract of a backend; each backend has a folder."""
