"""What is taken out of a report, what stays in it, and that the taking out has its price in time."""

import json
from time import process_time

import pytest

from arcops.core.launch import HIDDEN
from arcops.report.hiding import Hider, in_arguments, in_data, in_url, is_secret

SECRET = "s3cr3t-Value/42"


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {SECRET}",
        f"authorization: basic {SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"request with bearer {SECRET} refused",
        f'{{"api_key": "{SECRET}", "port": 8000}}',
        f"non-default args: {{'api_key': ['{SECRET}', '{SECRET}'], 'port': 8000}}",
        f"HF_TOKEN={SECRET}",
        f"export HF_TOKEN='{SECRET} and more {SECRET}'",
        f'["HF_TOKEN", "{SECRET}"]',
        f"https://someone:{SECRET.replace('/', '')}@example.org/path s3cr3t-no",
        f"GET /v1/models?access_token={SECRET}&x=1",
        f"vllm serve m --api-key {SECRET} --port 8000",
        f"vllm serve m --api-key={SECRET} --port 8000",
        f'["vllm", "--api-key", "{SECRET}"]',
        f"- --api-key\n- {SECRET}",
        f"X-Amz-Signature={SECRET}&X-Amz-Date=20260101",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}",
        f"password: {SECRET}",
        f"Cookie: session={SECRET}",
    ],
)
def test_what_looks_like_a_secret_is_hidden_though_nobody_knows_it(line: str) -> None:
    hidden = Hider().text(line)
    assert SECRET not in hidden
    assert SECRET.replace("/", "") not in hidden
    assert HIDDEN in hidden


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
        "sk-" + "proj-abcdefghijklmnop",
        "ghp_" + "abcdefghijklmnopqrstuvwx",
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N",
    ],
)
def test_tokens_are_known_by_their_shape_wherever_they_stand(token: str) -> None:
    assert Hider().text(f"loaded with {token}, and on") == f"loaded with {HIDDEN}, and on"


@pytest.mark.parametrize(
    "line",
    [
        "INFO 11-30 10:48:02 [engine.py:12] max_num_batched_tokens=8192, max_num_seqs: 4",
        "--max-num-batched-tokens 8192 --api-key-file /etc/arcops/key --port 8000",
        'vllm:prompt_tokens_total{engine="0",model_name="tiny"} 5.0',
        "num_tokens: 3",
        "'eos_token': None, 'bos_token_id': 151643",
        "api_key_file: ~/.config/arcops/key",
        "KeyError: 'layers.0.weight'",
        "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1.0 tokens/s",
        "hf_overrides is not set; http://127.0.0.1:8000/v1",
        "GPU KV cache size: 4,096 tokens",
    ],
)
def test_what_a_maintainer_needs_stays(line: str) -> None:
    assert Hider().text(line) == line


def test_a_known_secret_is_hidden_however_it_is_written() -> None:
    secret = "a\"b\\c ä/ü'd"
    hider = Hider([secret])
    for text in (secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret)):
        assert HIDDEN in hider.text(f"so: {text}."), text
    assert hider.text("so: a%22b%5Cc%20%C3%A4/%C3%BC%27d") == f"so: {HIDDEN}"


def test_the_longer_of_two_known_secrets_leaves_no_rest_and_a_short_one_does_no_harm() -> None:
    assert Hider(["secret-one", "secret-one-and-more", "a"]).text("a secret-one-and-more") == f"a {HIDDEN}"


def test_json_stays_json() -> None:
    value = {"api_key": "a b", "password": 17, "list_of_tokens": ["a", "b"], "env": [["HF_TOKEN", "x"]], "n": 1}
    read = json.loads(Hider().text(json.dumps(value)))
    assert read["api_key"] == read["password"] == HIDDEN
    assert read["list_of_tokens"] == [HIDDEN]
    assert read["env"] == [["HF_TOKEN", HIDDEN]]
    assert read["n"] == 1


def test_hiding_twice_changes_nothing_more() -> None:
    text = 'HF_TOKEN=abcdefg "api_key": "x" Bearer abcdef https://u:p@host/ --api-key x'
    once = Hider(["abcdefg"]).text(text)
    assert Hider(["abcdefg"]).text(once) == once


def test_of_a_yaml_file_a_secrets_value_goes_over_all_its_lines() -> None:
    text = (
        "runtime:\n  env:\n    HF_TOKEN: |\n      first-line\n      second-line\n    PORT: 1\n"
        "    MY_SECRET:\n    - in a list\n    LAST: 2\n  password: >-\n    folded\n# a remark\nmodel: {path: x}\n"
    )
    hidden = Hider().yaml(text)
    for gone in ("first-line", "second-line", "in a list", "folded"):
        assert gone not in hidden
    for kept in ("PORT: 1", "LAST: 2", "model: {path: x}"):
        assert kept in hidden


def test_yaml_that_is_none_is_cleared_as_well() -> None:
    hidden = Hider().yaml("a: [\nHF_TOKEN: hf\n}{ password: 'x\n")
    assert "hf\n" not in hidden
    assert "'x" not in hidden


def test_secrets_in_data_are_found_by_key_by_flag_by_pair_and_in_urls() -> None:
    data = {
        "runtime": {"env": {"HF_TOKEN": "one-secret", "N_TOKENS": 3, "PROXY": "http://u:two-secret@host/"}},
        "extra_args": ["--api-key", "three-secret", "--port", "8000"],
        "environment": [["MY_PASSWORD", "four-secret"], ["HOME", "/root"]],
        "credentials": {"user": "five-secret"},
        "api_key_file": "/etc/key",
    }
    found = set(in_data(data))
    assert found == {"one-secret", "two-secret", "three-secret", "four-secret", "five-secret"}


def test_names_arguments_and_urls() -> None:
    assert is_secret("--api-key", "x")
    assert is_secret("api_key_file", "sk-pasted-here-by-mistake")
    assert not is_secret("api_key_file", "/etc/key")
    assert not is_secret("max_num_batched_tokens", "8192")
    assert not is_secret("tokenizer", "x")
    assert in_arguments(["--api-key", "a", "b", "--port", "1", "--hf-token=c"]) == ["a", "b", "c"]
    assert in_url("http://user:pa@ss@host/ ftp://token@host") == ["pa@ss", "token"]


@pytest.mark.parametrize(
    "text", ["key" * 300_000, 'token="' * 100_000, "://" * 300_000, "bearer " * 150_000, "--key" * 200_000, "[" * 10**6]
)
def test_no_text_takes_long(text: str) -> None:
    before = process_time()
    Hider(["some-secret", "another-secret"]).text(text)
    assert process_time() - before < 5.0, "about a megabyte"
