"""Models as layers, and the time that an NPU needs for them."""

from __future__ import annotations

from pyxsim.models.devices import Device, device, devices
from pyxsim.models.layer import Elements, Gemm, Kind, Layer, Model, Part, Share, Split, Work
from pyxsim.models.npu import Npu, Roofline, processor, roofline, state_bytes
from pyxsim.models.shelf import load_model, model_files

__all__ = [
    "Device",
    "Elements",
    "Gemm",
    "Kind",
    "Layer",
    "Model",
    "Npu",
    "Part",
    "Roofline",
    "Share",
    "Split",
    "Work",
    "device",
    "devices",
    "load_model",
    "model_files",
    "processor",
    "roofline",
    "state_bytes",
]
