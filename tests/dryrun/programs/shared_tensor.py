"""A tensor of the GPU that another process has, too."""
import torch


def look(tensor):
    print(tensor.shape, tensor.device, flush=True)


if __name__ == "__main__":
    process = torch.multiprocessing.get_context("spawn").Process(target=look, args=(torch.zeros(1000, 1000, device="cuda"),))
    process.start()
    process.join()
    print("end")
