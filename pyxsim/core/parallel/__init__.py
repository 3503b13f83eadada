"""One network on several threads: partition, mailboxes, epochs (docs/threads.md)."""
