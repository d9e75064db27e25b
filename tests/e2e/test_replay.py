from pathlib import Path

from integration.generator.fake_endpoint import endpoint, says

SMALL_TASK = Path(__file__).parent / "inputs" / "small_task.py"
KERNEL = """import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.relu(x) * 2.0 + {number}.0
"""
EDIT = """Tidy.
<<<<<<< SEARCH
        super().__init__()
=======
        super().__init__()
        self.number = {number}
>>>>>>> REPLACE
"""
STEPS = 4


def _answers():
    for number in range(1, 40):
        yield says((f"One pass.\n```python\n{KERNEL}```" if number % 2 else EDIT).replace("{number}", str(number)))


def _tree(result):
    keys = ("step", "parent", "move", "kernel_digest", "outcome", "verdict", "cause", "summary")
    return [{key: node[key] for key in keys} for node in result["nodes"]]


def test_a_recorded_search_is_repeated_without_a_model(adaexplore, tmp_path):
    cassette = tmp_path / "run.jsonl"
    words = ["optimize", SMALL_TASK, "--steps", STEPS, "--seed", 5, "--json", "--no-memory"]
    with endpoint() as fake:
        fake.script(*_answers())
        flags = ("--generator", "openai", "--base-url", fake.url, "--record", cassette)
        first = adaexplore(
            *words, *flags, "--out", tmp_path / "out", "--state-dir", tmp_path / "state", environ={"OPENAI_API_KEY": "sk-secret"}
        )
    assert first.code == 0, first.err
    again = adaexplore(*words, "--replay", cassette, "--out", tmp_path / "out2", "--state-dir", tmp_path / "state2")
    assert again.code == 0, again.err
    assert _tree(again.json) == _tree(first.json)
    assert len({node["kernel_digest"] for node in first.json["nodes"]}) > 2
    assert again.json["usage"] == first.json["usage"] | {"cost_micro_usd": 0}  # what was paid for once is not paid for again
    assert first.json["usage"]["input_tokens"] == 100 * first.json["usage"]["calls"]
    kernels = [(tmp_path / out / "best_kernel.py").read_text() for out in ("out", "out2")]
    first_kernel, second_kernel = (text[text.index("import torch") :] for text in kernels)  # above it stands which search found it
    assert first_kernel == second_kernel
    assert "sk-secret" not in cassette.read_text()
    assert "class Model" not in cassette.read_text().replace("class ModelNew", "")  # prompts are not in it


def test_another_search_than_the_recorded_one_ends_with_what_to_do(adaexplore, tmp_path):
    cassette = tmp_path / "run.jsonl"
    cassette.write_text('{"cassette":1}\n')
    found = adaexplore(
        "optimize", SMALL_TASK, "--steps", 1, "--replay", cassette, "--out", tmp_path / "out", "--state-dir", tmp_path / "state"
    )
    assert found.code == 2
    assert "--replay FILE" in found.err
