import pytest
from adaexplore_generator.config import load
from adaexplore_generator.providers.key import ApiKey
from authorities import secret_file

from adaexplore.runtime.config import ConfigError

OURS, SHARED = "ADAEXPLORE_GENERATOR_OPENAI_API_KEY", "OPENAI_API_KEY"


def test_without_settings_the_provider_is_the_one_that_costs_nothing():
    config = load([], {})
    assert config.default_provider == "templates"
    assert config.endpoint("openai").api_key == config.endpoint("openai").base_url == ""


@pytest.mark.parametrize(
    ("environ", "key"),
    [({SHARED: "theirs"}, "theirs"), ({SHARED: "theirs", OURS: "ours"}, "ours"), ({OURS: " ours\n"}, "ours"), ({SHARED: ""}, "")],
)
def test_our_variable_wins_over_the_shared_one(environ, key):
    assert load([], environ).endpoint("openai").api_key == key


def test_a_flag_wins_over_both_variables_for_the_base_url():
    environ = {"OPENAI_BASE_URL": "http://a/v1", "ADAEXPLORE_GENERATOR_OPENAI_BASE_URL": "http://b/v1"}
    assert load([], environ).endpoint("openai").base_url == "http://b/v1"
    assert load(["--openai-base-url", "http://c/v1/"], environ).endpoint("openai").base_url == "http://c/v1/"


def test_a_key_is_not_shown_by_the_configuration():
    assert "hidden" not in repr(load([], {OURS: "hidden"}))


def test_a_key_may_be_in_a_file_that_is_closed_to_others(tmp_path):
    path = secret_file(tmp_path / "key", "from-a-file\n")
    config = load(["--openai-api-key-file", str(path)], {})
    assert config.endpoint("openai").api_key_file == path
    assert "from-a-file" not in repr(config)
    with pytest.raises(ConfigError, match=r"--openai-api-key-file .*the key is given by a variable too .*OPENAI_API_KEY"):
        load([], {f"{OURS}_FILE": str(path), SHARED: "theirs"})
    for content, mode, words in (("two words", 0o600, "no key has"), ("key", 0o644, "others may read")):
        path.write_text(content)
        path.chmod(mode)
        with pytest.raises(ConfigError, match=words) as caught:
            load([], {f"{OURS}_FILE": str(path)})
        assert "two words" not in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        load([], {f"{OURS}_FILE": str(tmp_path / "nowhere" / "key")})


def test_a_key_that_comes_or_changes_later_is_used_and_one_that_cannot_be_is_not(tmp_path):
    path = tmp_path / "key"  # an optional secret is a folder that stays empty until the secret is made
    settings = load([], {f"{OURS}_FILE": str(path)}).endpoint("openai")
    key = ApiKey(settings.api_key, settings.api_key_file)
    assert key.now == ""
    seen = []
    for content in ("first", " second\n", "not a key", ""):
        secret_file(path, content)
        seen.append(key.now)
    assert seen == ["first", "second", "second", ""]


def test_a_key_has_no_flag_since_argument_lists_are_public():
    with pytest.raises(ConfigError, match="no such flag"):
        load(["--openai-api-key", "x"], {})


def test_all_problems_are_listed_at_once():
    with pytest.raises(ConfigError) as caught:
        load(
            ["--openai-attempts", "0", "--listen", "0.0.0.0:1"],
            {"ADAEXPLORE_GENERATOR_OPENAI_BASE_URL": "nowhere", "ADAEXPLORE_GENERATOR_OPENAI_URL": "x"},
        )
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    for name in ("OPENAI_ATTEMPTS", "INSECURE_LISTEN", "OPENAI_BASE_URL", "OPENAI_URL"):
        assert f"ADAEXPLORE_GENERATOR_{name}" in text
