import torch


def dropped(x, p=0.5):
    return torch.nn.functional.dropout(x, p, training=True)


##################################################################################################################################################


def test_dropped():
    results = {}
    x = torch.rand(512, 2048, device="cuda") + 0.5
    results["half"] = dropped(x)
    results["a_quarter"] = dropped(x[:64], p=0.25)
    return results


test_results = test_dropped()
