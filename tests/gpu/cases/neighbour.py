"""Uses the GPU beside whoever is timed on it, now more and now less, until it is ended."""

import random
import time

import torch

side = 8192
factor = torch.rand(side, side, device="cuda", dtype=torch.float16)
while True:
    for _ in range(random.randrange(1, 40)):
        factor @ factor
    torch.cuda.synchronize()
    time.sleep(random.random() * 0.05)
