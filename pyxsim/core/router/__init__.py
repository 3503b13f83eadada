"""The router with every option, unit by unit: buffers, RC, VA, SA, ST, links and interfaces.

Read router_step.pyx first: it calls the stages in order. docs/router.md is the contract.
"""
