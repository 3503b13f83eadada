"""Ultra Ethernet: trimming queues, entropy of each packet, and the transports NSCC and RCCC (docs/uec.md)."""
