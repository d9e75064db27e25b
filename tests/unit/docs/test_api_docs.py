"""The API reference that is written from the protos."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROTO = """
syntax = "proto3";

// A shop.
package adaexplore.shop.v1;

import "google/protobuf/duration.proto";

// Sells things.
service ShopService {
  // Buys a thing | or two.
  rpc Buy(BuyRequest) returns (stream BuyResponse);
}

// What state a thing is in.
enum State {
  // Not stated.
  STATE_UNSPECIFIED = 0;
}

// Request of Buy.
message BuyRequest {
  // Amounts by name.
  map<string, State> amounts = 1;
  // How long to wait,
  // at most.
  optional google.protobuf.Duration wait = 2;
  // Either this …
  oneof choice {
    // A name.
    string name = 3;
  }
  // Older requests | of the same.
  repeated BuyRequest older = 4;
}

// Response of Buy.
message BuyResponse {}
"""


@pytest.fixture(scope="module")
def api_docs():
    spec = importlib.util.spec_from_file_location("api_docs", ROOT / "scripts" / "api_docs.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def shop(api_docs, tmp_path):
    folder = tmp_path / "adaexplore" / "shop" / "v1"
    folder.mkdir(parents=True)
    (folder / "shop.proto").write_text(PROTO)
    return api_docs.render(api_docs.read_protos(tmp_path))


def test_a_page_says_what_each_rpc_takes_and_returns(shop):
    assert "### Buy\n\n[BuyRequest](#buyrequest) → a stream of [BuyResponse](#buyresponse)\n\nBuys a thing | or two." in shop["shop.md"]


def test_a_field_has_its_number_its_type_and_its_comment(shop):
    rows = [line for line in shop["shop.md"].splitlines() if line.startswith("| `")]
    assert rows == [
        "| `amounts` | 1 | map of string to [State](#state) | Amounts by name. |",
        "| `wait` | 2 | optional `google.protobuf.Duration` | How long to wait, at most. |",
        "| `name` | 3 | string, one of `choice` | A name. |",
        "| `older` | 4 | repeated [BuyRequest](#buyrequest) | Older requests \\| of the same. |",
        "| `STATE_UNSPECIFIED` | 0 | Not stated. |",
    ]


def test_the_index_names_every_page(shop):
    assert "| [`adaexplore.shop.v1`](shop.md) | A shop. |" in shop["README.md"]


def test_every_link_of_the_reference_leads_to_a_heading():
    pages = {path.name: path.read_text() for path in (ROOT / "docs" / "api").glob("*.md")}
    anchors = {name: {line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")} for name, text in pages.items()}
    for name, text in pages.items():
        for page, anchor in re.findall(r"\]\(([a-z]*\.md)?#([a-z0-9]+)\)", text):
            assert anchor in anchors[page or name], f"{name}: {page}#{anchor}"


def test_every_field_and_value_of_the_reference_is_described():
    for path in (ROOT / "docs" / "api").glob("*.md"):
        assert not [line for line in path.read_text().splitlines() if line.startswith("| `") and line.endswith("|  |")], path
