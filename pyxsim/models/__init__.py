"""L5.5: models as layers, and how long an NPU takes for them."""

from __future__ import annotations

from pyxsim.models.layer import Elements, Gemm, Kind, Layer, Model, Part, Share, Split, Work
from pyxsim.models.shelf import load_model, model_files

__all__ = [
    "Elements",
    "Gemm",
    "Kind",
    "Layer",
    "Model",
    "Part",
    "Share",
    "Split",
    "Work",
    "load_model",
    "model_files",
]
