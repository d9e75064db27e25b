"""A small writer of operator graphs, in the form in which the evaluator's runner sends them."""

from __future__ import annotations

import math
from typing import Any

Json = dict[str, Any]
_BYTES = {"FLOAT32": 4, "BFLOAT16": 2, "INT64": 8}


class GraphWriter:
    """Collects values and calls; bytes are those of the distinct operands and of the results, views move none."""

    def __init__(self) -> None:
        self.values: dict[str, Json] = {}
        self.calls: list[Json] = []

    def value(self, name: str, *shape: int, kind: str = "INPUT", dtype: str = "FLOAT32") -> str:
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        tensor = {"dtype": f"D_TYPE_{dtype}", "shape": list(shape), "strides": strides}
        self.values[name] = {"name": name, "type": tensor, "kind": f"VALUE_KIND_{kind}", "state_name": ""}
        return name

    def call(self, operator: str, *args: Any, shape: tuple[int, ...], view: bool = False, flops: float = 0.0, **kwargs: Any) -> str:
        result = self.value(f"v{len(self.values)}", *shape, kind="RESULT")
        operands = dict.fromkeys(name for argument in args for name in self._names(argument))
        self.calls.append(
            {
                "operator": operator,
                "args": [self._argument(argument) for argument in args],
                "kwargs": {name: self._argument(argument) for name, argument in kwargs.items()},
                "results": [result],
                "flops": flops,
                "bytes_read": 0 if view else sum(map(self.bytes, operands)),
                "bytes_written": 0 if view else self.bytes(result),
                "line": 1,
            }
        )
        return result

    def bytes(self, name: str) -> int:
        kind = self.values[name]["type"]
        return math.prod(kind["shape"]) * _BYTES[kind["dtype"].removeprefix("D_TYPE_")]

    def graph(self, *outputs: str) -> Json:
        return {"values": list(self.values.values()), "calls": self.calls, "outputs": list(outputs)}

    def _names(self, argument: Any) -> list[str]:
        if isinstance(argument, list):
            return [name for item in argument for name in self._names(item)]
        return [argument] if isinstance(argument, str) and argument in self.values else []

    def _argument(self, argument: Any) -> Json:
        if argument is None:
            return {}
        if isinstance(argument, list):
            return {"list_value": {"items": [self._argument(item) for item in argument]}}
        if isinstance(argument, bool):
            return {"bool_value": argument}
        if isinstance(argument, int):
            return {"int_value": argument}
        if isinstance(argument, float):
            return {"float_value": argument}
        return {"value_name": argument} if argument in self.values else {"string_value": argument}
