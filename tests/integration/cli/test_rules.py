"""Rules are written, changed, retired, counted and exchanged from the command line."""

import json
import sys

import pytest

from adaexplore.cli.main import main
from adaexplore.testing.servers import ServerProcess, stop_process

RULE = "You cannot use `tl.math.tanh` on Triton 3.7."


@pytest.fixture
def memory(tmp_path):
    server = ServerProcess("memory", tmp_path / "state", [])
    process = server.start()
    yield server
    stop_process(process)


@pytest.fixture
def rules(memory, monkeypatch, capsys):
    """Run `adaexplore rules …` in this process; its exit code and what it printed."""

    def run(*words):
        monkeypatch.setenv("ADAEXPLORE_ADDRESS_MEMORY", memory.address)
        monkeypatch.setattr(sys, "argv", ["adaexplore", "rules", *(str(word) for word in words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().out

    return run


def answer(found):
    code, out = found
    assert code == 0, out
    return json.loads(out)


def test_a_rule_is_added_edited_retired_and_counted(rules):
    added = answer(rules("add", RULE, "--instead", "Use libdevice.", "--triton", "==3.7.*", "--json"))
    assert (added["state"], added["scope"]) == ("SKILL_STATE_CANDIDATE", {"triton_versions": "==3.7.*"})
    edited = answer(rules("edit", added["name"], "--instead", "", "--rule", RULE.replace("3.7", "3.7.1"), "--json"))
    assert "instead" not in edited
    assert edited["rule"].endswith("3.7.1.")
    code, out = rules("edit", added["name"], "--instead", "Late.", "--etag", added["etag"], "--json")
    assert (code, json.loads(out)["error"]["reason"]) == (1, "ETAG_MISMATCH")
    retired = answer(rules("retire", added["name"].removeprefix("skills/"), "--reason", "nobody needs it", "--json"))
    assert (retired["state"], retired["retire_reason"]) == ("SKILL_STATE_RETIRED", "nobody needs it")
    assert answer(rules("stats", "--json"))["skills"] == [{"kind": "SKILL_KIND_PITFALL", "state": "SKILL_STATE_RETIRED", "count": 1}]
    assert "pitfalls, RETIRED" in rules("stats")[1]


def test_exported_rules_are_imported_as_candidates(rules, tmp_path):
    rules("add", RULE, "--name-used", "triton.language.math.tanh")
    file = tmp_path / "rules.jsonl"
    assert rules("export", "--out", file)[0] == 0
    (line,) = file.read_text().splitlines()
    poisoned = json.loads(line) | {"rule": "You cannot use two.", "state": "SKILL_STATE_ACTIVE"}
    poisoned["evidence"] = {"task_digests": ["a", "b"], "proof": {"reproducer_failed": True}}
    file.write_text(f"{line}\n\n{json.dumps(poisoned)}\n")
    assert answer(rules("import", file, "--json")) == {"imported": 1, "known": 1, "refused": 0, "refusals": []}
    listed = answer(rules("list", "--json"))["rules"]
    assert {rule["state"] for rule in listed} == {"SKILL_STATE_CANDIDATE"}
    assert rules("export", "--state", "active") == (0, "")


def test_the_papers_text_is_read_and_written(rules, tmp_path):
    file = tmp_path / "rules.txt"
    file.write_text("You cannot use one || two.||79\nYou cannot use tl.load.||3\nNever do this.||1\n")
    found = answer(rules("import", file, "--json"))
    assert (found["imported"], found["refused"]) == (1, 2)
    assert [refusal["line"] for refusal in found["refusals"]] == [2, 3]
    assert rules("export", "--format", "text") == (0, "You cannot use one || two.||0\n")


@pytest.mark.parametrize("text", ["no score", "{broken", '{"rule": 3}', "You cannot.||many", '{"skill": ' + "[" * 100_000])
def test_a_line_that_is_no_rule_is_named(rules, tmp_path, text):
    file = tmp_path / "rules.txt"
    file.write_text(f"You cannot use one.||1\n{text}\n")
    code, out = rules("import", file, "--json")
    assert code == 2
    assert "line 2" in json.loads(out)["error"]["message"]
    assert answer(rules("list", "--json"))["rules"] == []
