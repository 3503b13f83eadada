"""The panels of the HTML page of a result. Each module registers its panels when it is imported."""
