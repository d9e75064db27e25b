"""Small tasks in KernelBench form, with odd sizes at which numbers are judged."""

from __future__ import annotations

from dataclasses import dataclass, field

_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclass(frozen=True)
class SmallTask:
    name: str
    source: str
    judged: dict[str, int] = field(default_factory=dict)
    functions: tuple[str, ...] = ()


def small_task(
    name: str, init: str, forward: str, inputs: str, arguments: str = "x", constants: str = "", functions: tuple = ()
) -> SmallTask:
    """A task with `rows` and `cols`, 96 × 320 at full and 5 × 37 at judged shape."""
    init = "\n".join(f"        {line}" for line in init.splitlines())
    forward = "\n".join(f"        {line}" for line in forward.splitlines())
    source = (
        f"{_HEAD}\n\nclass Model(nn.Module):\n    def __init__(self, size):\n        super(Model, self).__init__()\n{init}\n\n"
        f"    def forward(self, {arguments}):\n{forward}\n\n\nrows = 96\ncols = 320\n{constants}\n\n"
        f"def get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return [cols]\n"
    )
    return SmallTask(name, source, {"rows": 5, "cols": 37}, functions)


ONE_INPUT = "[torch.randn(rows, cols)]"

TASKS = (
    small_task("softmax", "", "return torch.softmax(x, dim=1)", ONE_INPUT),
    small_task("log_softmax_first", "", "return torch.log_softmax(x, dim=0)", ONE_INPUT),
    small_task(
        "rmsnorm_residual",
        "self.weight = nn.Parameter(torch.ones(size))",
        "y = x + residual\nreturn y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight",
        "[torch.randn(rows, cols), torch.randn(rows, cols)]",
        "x, residual",
    ),
    small_task("layernorm", "self.norm = nn.LayerNorm(size)", "return self.norm(x)", ONE_INPUT),
    small_task(
        "bias_gelu_residual",
        "self.bias = nn.Parameter(torch.zeros(size))",
        "return F.gelu(x + self.bias, approximate='tanh') + residual",
        "[torch.randn(rows, cols), torch.randn(rows, cols)]",
        "x, residual",
        functions=("tanh",),
    ),
    small_task(
        "swiglu",
        "self.gate = nn.Linear(size, 48)\nself.up = nn.Linear(size, 48, bias=False)",
        "return F.silu(self.gate(x)) * self.up(x)",
        ONE_INPUT,
    ),
    small_task(
        "cross_entropy",
        "",
        "return F.cross_entropy(x, labels)",
        "[torch.randn(rows, cols), torch.randint(0, cols, (rows,))]",
        "x, labels",
    ),
    small_task("linear_relu", "self.linear = nn.Linear(size, 70)", "return torch.relu(self.linear(x))", ONE_INPUT),
    small_task("logsumexp", "", "return torch.logsumexp(x, dim=1)", ONE_INPUT),
    small_task("min_mean", "", "return torch.min(x, dim=1)[0].mean() + x.mean()", ONE_INPUT),
    small_task("mse", "", "return torch.mean((x - target) ** 2)", "[torch.randn(rows, cols), torch.randn(rows, cols)]", "x, target"),
    small_task(
        "channel_scale",
        "self.scale = nn.Parameter(torch.ones(6, 1, 1))",
        "return F.leaky_relu(x * self.scale, 0.1) * torch.sigmoid(x)",
        "[torch.randn(rows, 6, 7, cols)]",
    ),
    small_task("groupnorm", "self.norm = nn.GroupNorm(3, 6)", "return torch.tanh(self.norm(x)) * 2.0", "[torch.randn(3, 6, rows, 9)]"),
    small_task("groupnorm_last", "self.norm = nn.GroupNorm(2, 4)", "return self.norm(x + 1.0)", "[torch.randn(2, 4, 3, rows)]"),
    small_task(
        "batchnorm_eval",
        "self.norm = nn.BatchNorm2d(6).eval()",
        "return F.hardswish(self.norm(x))",
        "[torch.randn(3, 6, rows, 9)]",
    ),
    small_task(
        "rms_channels", "", "return x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)", "[torch.randn(3, 6, rows, cols)]"
    ),
    small_task(
        "attention_scores",
        "",
        "return torch.softmax(torch.bmm(x, y) * 0.125, dim=-1)",
        "[torch.randn(3, rows, 40), torch.randn(3, 40, cols)]",
        "x, y",
    ),
    small_task("transposed", "", "return (x.t() @ y).clamp(min=-1.0)", "[torch.randn(cols, rows), torch.randn(cols, 33)]", "x, y"),
    small_task("normalise", "", "return F.normalize(F.elu(x), p=2.0, dim=1)", ONE_INPUT),
    small_task("std", "", "return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-3)", ONE_INPUT),
    small_task("mish_twice", "", "return F.mish(F.softplus(x)) + F.selu(x) + F.hardsigmoid(x)", ONE_INPUT),
    small_task("stays_partly", "", "return torch.cumsum(torch.relu(x), dim=1) * 3.0", ONE_INPUT),
    small_task("sequence", "self.linear = nn.Linear(size, 24)", "return F.softmax(self.linear(x), dim=-1)", "[torch.randn(rows, 3, cols)]"),
)
