"""Writes the generator's price table from the price list of the litellm package: `prices.py LIST.json --version V --date YYYY-MM-DD`."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "services/generator/adaexplore_generator/prices.json"
HOSTS = {
    "openai": ("openai", "api.openai.com"),
    "anthropic": ("anthropic", "api.anthropic.com"),
    "gemini": ("gemini", "generativelanguage.googleapis.com"),
    "deepseek": ("openai", "api.deepseek.com"),
}
PER_MILLION = 10**12  # USD a token to micro-USD a million tokens
# Dated snapshots cost what their model costs; the others write no programs.
LEFT_OUT = re.compile(
    r"-20\d{2}-?\d{2}-?\d{2}$|audio|search|tts|image|video|omni|lyria|gemma|robotics|research|learnlm|-exp|computer-use|^ft:"
)
KINDS = {
    "input": "input_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "output": "output_cost_per_token",
}


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path, help="model_prices_and_context_window_backup.json of the package")
    parser.add_argument("--version", required=True, help="version of the package")
    parser.add_argument("--date", required=True, help="day on which the list was taken, YYYY-MM-DD")
    arguments = parser.parse_args()
    listed = json.loads(arguments.list.read_text())
    rows = sorted((row for name, entry in listed.items() if (row := _row(name, entry))), key=lambda row: (row["host"], row["model"]))
    # Whoever answers is not paid by us, and what was recorded was paid for then.
    rows += [{"provider": name, "host": "", "model": "*", "input": 0, "output": 0} for name in ("external", "replay")]
    unique = {(row["provider"], row["host"], row["model"]): row for row in rows}
    head = {"date": arguments.date, "source": f"price list of litellm {arguments.version}", "unit": "micro-USD per million tokens"}
    lines = ",\n".join(f"    {json.dumps(row)}" for row in unique.values())
    TABLE.write_text(json.dumps(head, indent=2)[:-2] + f',\n  "models": [\n{lines}\n  ]\n}}\n')


def _row(name: str, entry: dict[str, Any]) -> dict[str, Any] | None:
    known = HOSTS.get(entry.get("litellm_provider", ""))
    model = name.rpartition("/")[2]
    if not known or entry.get("mode") not in ("chat", "responses") or LEFT_OUT.search(model) or not entry.get("output_cost_per_token"):
        return None
    provider, host = known
    row = {"provider": provider, "host": host, "model": model, **_prices(entry, "")}
    bounds = sorted({int(found[1]) for key in entry if (found := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key))})
    if bounds:
        row["above"] = {"input_tokens": bounds[0] * 1000, **(_prices(entry, "") | _prices(entry, f"_above_{bounds[0]}k_tokens"))}
    return row


def _prices(entry: dict[str, Any], suffix: str) -> dict[str, int]:
    return {kind: round(entry[key + suffix] * PER_MILLION) for kind, key in KINDS.items() if entry.get(key + suffix)}


if __name__ == "__main__":
    main()
