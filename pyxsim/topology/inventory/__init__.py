"""Networks from inventories of machines: InfraGraph, topologies of NCCL and nvidia-smi, hwloc."""
