"""Starts CUDA and does nothing with it."""
import torch

torch.cuda.init()
torch.cuda.synchronize()
