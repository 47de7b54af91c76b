"""Imports JAX for its CUDA plugin. JAX looks for a card's device file before anything else: over the stand-in there is none."""
import os
import sys

from jax._src import hardware_utils

if "stand-in" in sys.argv:
    hardware_utils.has_visible_nvidia_gpu = lambda: True
os.environ.setdefault("JAX_PLATFORMS", "cuda")
