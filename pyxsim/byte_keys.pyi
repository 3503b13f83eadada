"""Numbers by keys that are bytes in the memory of C. Without a Python face."""
