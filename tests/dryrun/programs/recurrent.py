"""Recurrent networks of every kind, forward and backward; the bytes of each one's weights, which cuDNN keeps in one buffer."""
import torch

for cell in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    for options in ({}, {"num_layers": 2, "bidirectional": True, "dropout": 0.5}, {"bias": False}):
        network = cell(64, 128, batch_first=True, **options).cuda()
        y, _ = network(torch.randn(8, 32, 64, device="cuda"))
        y.sum().backward()
        flat = network._flat_weights[0].untyped_storage().nbytes()
        assert y.shape[:2] == (8, 32) and all(w.grad is not None for w in network.parameters())
        unused = 0 if options.get("bias", True) else 2 * network.weight_hh_l0.shape[0]  # PyTorch asks for biases in any case
        print(cell.__name__, flat == 4 * (sum(w.numel() for w in network.parameters()) + unused))
packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(4, 10, 64, device="cuda"), [10, 8, 5, 2], batch_first=True)
print("packed", torch.nn.LSTM(64, 32, 2, proj_size=16, batch_first=True).cuda().eval()(packed)[0].data.shape)
