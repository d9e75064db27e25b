"""What calls cost, in integer micro-USD: a price table with date and source, and what a call can cost at most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import pydantic

from adaexplore.runtime.errors import FailedPreconditionError
from adaexplore_generator.domain import Prompt, Usage

_MILLION = 1_000_000
_SNAPSHOT = re.compile(r"[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2}|latest)$")
# Byte-level tokens are at least one byte each; every message has a few tokens around it, and so has a conversation.
_MESSAGE_TOKENS = 64


class Rates(pydantic.BaseModel):
    """Micro-USD per million tokens; a kind of input that has no rate of its own costs what other input costs."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    input: int = pydantic.Field(ge=0)
    output: int = pydantic.Field(ge=0)
    cached: int | None = pydantic.Field(None, ge=0)
    cache_write: int | None = pydantic.Field(None, ge=0)

    @property
    def cached_rate(self) -> int:
        """Rate of input that the provider's cache serves."""
        return self.input if self.cached is None else self.cached

    @property
    def cache_write_rate(self) -> int:
        """Rate of input that is written into the provider's cache."""
        return self.input if self.cache_write is None else self.cache_write

    def micro_usd(self, usage: Usage) -> int:
        """Return what some tokens cost, rounded up."""
        plain = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
        read = plain * self.input + usage.cached_tokens * self.cached_rate + usage.cache_write_tokens * self.cache_write_rate
        return -(-(read + usage.output_tokens * self.output) // _MILLION)


class LongRates(Rates):
    """Rates of calls whose prompt is longer than so many tokens."""

    input_tokens: int = pydantic.Field(gt=0)


class Price(Rates):
    """What one model costs.

    Attributes:
        provider: Provider that sells it.
        model: Its name there; `*` means every model that has no price of its own.
        host: Host of the endpoint at which the price holds; empty means any.
        above: Rates of calls with long prompts; None if there are none.

    """

    provider: str
    model: str
    host: str = ""
    above: LongRates | None = None

    def cost(self, usage: Usage) -> int:
        """Return what a call of this usage cost, in micro-USD, rounded up."""
        is_long = self.above is not None and usage.input_tokens > self.above.input_tokens
        return self.above.micro_usd(usage) if self.above and is_long else self.micro_usd(usage)

    def worst_cost(self, usage: Usage) -> int:
        """Return the most that a call of at most this usage can cost, in micro-USD: nothing cached, or all written to the cache."""
        written = Usage(usage.input_tokens, output_tokens=usage.output_tokens, cache_write_tokens=usage.input_tokens)
        plain = Usage(usage.input_tokens, output_tokens=usage.output_tokens)
        return max(self.cost(plain), self.cost(written), self.micro_usd(plain), self.micro_usd(written))


class PriceTable(pydantic.BaseModel):
    """Prices with the day and the place where they were looked up."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    date: str = pydantic.Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    source: str
    unit: str = "micro-USD per million tokens"
    models: tuple[Price, ...]


class PriceTableError(ValueError):
    """A file of prices cannot be used; the text says why in one line."""


class Prices:
    """The price of each model, own prices before those of the package.

    Args:
        tables: Tables, the one that counts most first.

    """

    def __init__(self, tables: Sequence[PriceTable]) -> None:
        self._tables = tuple(tables)
        self._found = lru_cache(maxsize=256)(self._sought)

    def find(self, provider: str, host: str, model: str) -> tuple[Price, PriceTable] | None:
        """Return the price of a model at an endpoint and the table it is from; None if it is unknown.

        A snapshot, for example `gpt-5-mini-2025-08-07`, costs what its model costs unless it has a price of its own.
        """
        return self._found(provider, host, model)

    def _sought(self, provider: str, host: str, model: str) -> tuple[Price, PriceTable] | None:
        for table in self._tables:
            for name in (model, _SNAPSHOT.sub("", model), "*"):
                for price in table.models:
                    if price.provider == provider and price.model == name and price.host in ("", host):
                        return price, table
        return None


def load_prices(path: Path | None) -> Prices:
    """Return the prices of this package, below those of a file if one is given.

    Raises:
        PriceTableError: The file cannot be read or is no price table.

    """
    shipped = PriceTable.model_validate_json(resources.files("adaexplore_generator").joinpath("prices.json").read_bytes())
    return Prices(([read_table(path)] if path else []) + [shipped])


def read_table(path: Path) -> PriceTable:
    """Return the table that a file holds; PriceTableError if it cannot be read or is none."""
    try:
        return PriceTable.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PriceTableError(f"{path}: {error.strerror or error}") from error
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise PriceTableError(f"{path}: {place}: {first['msg']}; prices.json of the package shows the form") from error


def most_tokens(prompt: Prompt) -> int:
    """Return the most input tokens that a prompt can take: one for each byte."""
    return sum(len(message.content.encode("utf-8", "replace")) + _MESSAGE_TOKENS for message in prompt.messages) + _MESSAGE_TOKENS


def price_unknown(provider: str, model: str) -> FailedPreconditionError:
    """Return the error for a cost limit where the price of the model is unknown."""
    named = repr(model) if model else "the endpoint's own choice of a model"
    return FailedPreconditionError(
        f"the price of {named} at provider {provider!r} is unknown, so a cost limit cannot be kept; give its price in a file "
        "(ADAEXPLORE_GENERATOR_PRICES_FILE), name a model with a known price, leave the limit out, or use `templates`",
        reason="PRICE_UNKNOWN",
    )


def above_limit(worst: int, left: int) -> FailedPreconditionError:
    """Return the error for a call that may cost more than is left of the request's limit, both in micro-USD."""
    return FailedPreconditionError(
        f"the call may cost {worst:,} micro-USD and the limit leaves {left:,}, so it was not made; raise the limit, or lower "
        "max_output_tokens",
        reason="COST_ABOVE_LIMIT",
    )
