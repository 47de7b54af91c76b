"""Prints the folder with cuda.h that PyPI's nvidia-cuda-runtime wheel brought into this Python; nothing if there is none."""
import glob
import os
import sys

for folder in sys.path:
    found = sorted(glob.glob(os.path.join(folder, "nvidia", "*", "include", "cuda.h")))
    if found:
        print(os.path.dirname(found[-1]))
        break
