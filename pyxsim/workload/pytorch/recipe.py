"""The lines of Python that record a training step with the PyTorch profiler; `pyxsim workload collect` prints them."""

RECIPE = '''\
import torch.distributed as dist
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile


def record(step, prefix="step", warm_up=5):
    """Record one call of step() on each rank: PREFIX.RANK.kineto.json, and PREFIX.RANK.host.json for other tools."""
    for _ in range(warm_up):
        step()
    rank = dist.get_rank()
    host = ExecutionTraceObserver().register_callback(f"{prefix}.{rank}.host.json")  # numbers what the profiler records
    dist.barrier()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, record_shapes=True, execution_trace_observer=host) as profiler:
        step()
    profiler.export_chrome_trace(f"{prefix}.{rank}.kineto.json")
'''
