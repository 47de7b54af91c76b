"""JAX's plugin brings no CUDA runtime of its own and so runs over the simulated one, if JAX asks for it."""


def install(hardware_utils):
    hardware_utils.has_visible_nvidia_gpu = lambda: True  # it looks for a card's device file
