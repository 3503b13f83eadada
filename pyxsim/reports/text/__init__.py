"""Text reports: the summary of a run, its facts and tables, for terminals, notebooks and Markdown."""
