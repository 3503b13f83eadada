"""The router for the usual options: switch allocation on bit masks, and 64 routers per stage.

Read batch_path.pxd first. docs/router.md says which router runs.
"""
