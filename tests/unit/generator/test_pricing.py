"""Prices of models, and what calls can cost at most."""

import json

import pytest
from adaexplore_generator.domain import Message, Prompt, Usage
from adaexplore_generator.pricing import Price, Prices, PriceTable, PriceTableError, load_prices, most_tokens, read_table

MINI = Price(provider="openai", host="api.openai.com", model="gpt-5-mini", input=250_000, cached=25_000, output=2_000_000)


def table(*models):
    return PriceTable(date="2026-01-01", source="test", models=models)


@pytest.mark.parametrize("model", ["gpt-5-mini", "gpt-5-mini-2025-08-07", "gpt-5-mini-latest", "gpt-5-mini@20250807"])
def test_a_snapshot_costs_what_its_model_costs(model):
    assert Prices([table(MINI)]).find("openai", "api.openai.com", model) == (MINI, table(MINI))


@pytest.mark.parametrize(
    ("provider", "host", "model"),
    [
        ("openai", "127.0.0.1", "gpt-5-mini"),
        ("anthropic", "api.openai.com", "gpt-5-mini"),
        ("openai", "api.openai.com", "gpt-5-mini-x"),
        ("openai", "api.openai.com", ""),
    ],
)
def test_a_price_holds_for_its_own_model_at_its_own_endpoint_only(provider, host, model):
    assert Prices([table(MINI)]).find(provider, host, model) is None


def test_prices_of_ones_own_come_first_and_may_hold_anywhere(tmp_path):
    path = tmp_path / "prices.json"
    own = {"provider": "openai", "model": "gpt-5-mini", "input": 1, "output": 2}
    path.write_text(json.dumps({"date": "2026-02-02", "source": "contract", "models": [own]}))
    for host in ("api.openai.com", "127.0.0.1"):
        price, found = load_prices(path).find("openai", host, "gpt-5-mini")
        assert (price.input, price.output, found.source) == (1, 2, "contract")


def test_the_packages_table_has_a_date_a_source_and_the_default_models():
    prices = load_prices(None)
    price, found = prices.find("openai", "api.openai.com", "gpt-5-mini")
    assert (price.input, price.cached_rate, price.output) == (250_000, 25_000, 2_000_000)
    assert found.date >= "2026-12-01"
    assert "litellm" in found.source
    assert all(price.input <= price.output for price in found.models)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Invalid JSON"),
        ('{"date": "today", "source": "s", "models": []}', "date"),
        ('{"date": "2026-01-01", "source": "s", "models": [{"provider": "p", "model": "m", "input": -1, "output": 1}]}', "models.0.input"),
        (
            '{"date": "2026-01-01", "source": "s", "models": [{"provider": "p", "model": "m", "output": 1}]}',
            "models.0.input: Field required",
        ),
    ],
)
def test_a_file_that_is_no_price_table_is_refused_with_the_place(tmp_path, text, said):
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(PriceTableError, match=said):
        read_table(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PriceTableError, match="No such file"):
        read_table(tmp_path / "none.json")


def test_every_kind_of_token_has_its_rate_and_a_part_of_a_micro_dollar_counts_whole():
    price = Price(provider="p", model="m", input=1_000_000, cached=100_000, cache_write=1_250_000, output=5_000_000)
    usage = Usage(1000, cached_tokens=600, output_tokens=10, reasoning_tokens=4, cache_write_tokens=100)
    assert price.cost(usage) == 300 + 60 + 125 + 50
    assert MINI.cost(Usage(1)) == 1
    assert MINI.cost(Usage(0)) == 0


def test_a_long_prompt_has_rates_of_its_own():
    price = Price.model_validate(
        {
            **{"provider": "p", "model": "m", "input": 1_000_000, "output": 1_000_000},
            "above": {"input_tokens": 100, "input": 2_000_000, "output": 3_000_000},
        }
    )
    assert price.cost(Usage(100, output_tokens=1)) == 101
    assert price.cost(Usage(101, output_tokens=1)) == 205


@pytest.mark.parametrize("cached", [0, 40, 101])
@pytest.mark.parametrize("written", [0, 60])
@pytest.mark.parametrize("tokens", [(101, 50), (100, 50), (7, 0)])
def test_no_call_costs_more_than_the_worst_case(tokens, cached, written):
    price = Price.model_validate(
        {
            **{"provider": "p", "model": "m", "input": 1_000_000, "output": 4_000_000, "cached": 100_000, "cache_write": 1_250_000},
            "above": {"input_tokens": 100, "input": 900_000, "output": 5_000_000},
        }
    )
    read, wrote = tokens
    usage = Usage(read, min(cached, read), wrote, cache_write_tokens=min(written, read - min(cached, read)))
    assert price.cost(usage) <= price.worst_cost(Usage(101, output_tokens=50))


def test_a_prompt_takes_no_more_tokens_than_bytes_and_a_few_for_each_message():
    assert most_tokens(Prompt((Message("system", "ab"), Message("user", "é")))) == 2 + 2 + 3 * 64
