"""Secrets are masked by shape and by name; ordinary words that look alike stay."""

from __future__ import annotations

import pytest

from engine_probe.redact import mask, mask_argv, mask_env

HF = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3h"
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"token is {HF}.", "token is ***."),
        (f"https://huggingface.co/x?token={HF}&a=1", "https://huggingface.co/x?token=***&a=1"),
        ("key sk-proj-abc_DEF-123456 used", "key *** used"),
        ("sk-1234567890", "***"),
        ("remote ghp_16C7e42F292c6912E7710c838347Ae178B4a", "remote ***"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("{'authorization': 'Basic dXNlcjpwYXNz'}", "{'authorization': 'Basic ***'}"),
        ("'Authorization': 'swordfish'", "'Authorization': '***'"),
        ("sent Bearer abcdef123456 to it", "sent Bearer *** to it"),
        ("vllm serve m --api-key letmein --port 1", "vllm serve m --api-key *** --port 1"),
        ("--api-key=letmein --db-password 12", "--api-key=*** --db-password ***"),
        ("--hf_token letmein", "--hf_token ***"),
        ("HF_TOKEN=letmein vllm serve m", "HF_TOKEN=*** vllm serve m"),
        ('export VLLM_API_KEY="let me in"', 'export VLLM_API_KEY="***"'),
        ("AWS_SECRET_ACCESS_KEY: abc/def+g", "AWS_SECRET_ACCESS_KEY: ***"),
        ("DB_PASSWORD='x y'; next", "DB_PASSWORD='***'; next"),
        ("{'api_key': ['one', 'two'], 'port': 1}", "{'api_key': ***, 'port': 1}"),
        ("Namespace(api_key='one', hf_token='two', port=1)", "Namespace(api_key='***', hf_token='***', port=1)"),
        ("pull http://user:pa55@proxy:3128/x", "pull http://user:***@proxy:3128/x"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("MYKEY = letmein", "MYKEY = ***"),
        ("TOKENSECRET: letmein", "TOKENSECRET: ***"),
        ('{"db_password": "pw1", "port": 1}', '{"db_password": "***", "port": 1}'),
        ('"ssl_keyfile_password": "pw1"', '"ssl_keyfile_password": "***"'),
        (r'{"log": "{\"db_password\": \"pw1\"}"}', r'{"log": "{\"db_password\": \"***\"}"}'),
        ("db_password=pw3", "db_password=***"),
        ("dbPassword: pw3", "dbPassword: ***"),
        ("--db-password pw4 --port 1", "--db-password *** --port 1"),
        ("--db-password='p w' --port 1", "--db-password='***' --port 1"),
        ("token=abc", "token=***"),
        ("token: Letmein", "token: ***"),
        ("token: Letmein1 and go on", "token: *** and go on"),
        ("HF_TOKEN: Swordfish and more", "HF_TOKEN: *** and more"),
        ("token=Swordfish and more", "token=*** and more"),
        ("password: Swordfish and more", "password: *** and more"),
        ("aws_credentials = abc, git_credential: d", "aws_credentials = ***, git_credential: ***"),
        ("token=null-and-void", "token=***"),
        (f"unknown key bogus_{HF}", "unknown key bogus_***"),
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nabc\nd=\n-----END RSA PRIVATE KEY-----",
            "a -----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
        (KEY_LINE, "***"),
        (f"(pid=3) {KEY_LINE}\n", "(pid=3) ***\n"),
        ("web-1 | Ab0" + "x" * 20 + "==", "web-1 | ***"),
    ],
)
def test_secret_is_masked(text: str, expected: str) -> None:
    assert mask(text) == expected
    assert mask(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "GPU KV cache size: 34,736 tokens",
        "max_num_batched_tokens=8192, pad_token_id=0, eos_token='</s>'",
        "hf_overrides={}, hf_config_path=None, hf_tokenizer, hf_preprocessor",
        "api_key=None, hf_token=None, 'api_key': null",
        "TOKENIZERS_PARALLELISM=false",
        'HF_TOKEN=$HF_TOKEN docker run -e HF_TOKEN="$T"',
        "error: argument --api-key: expected at least one argument",
        "KeyError: 'model.layers.0.self_attn.k_proj.weight'",
        "see https://docs.vllm.ai/en/latest/a:b and git@github.com:x/y",
        "on the disk-encrypted-volume task-scheduling",
        "a basic understanding, Basic Authentication",
        "use the bearer of news",
        "INFO 05-01 10:00:00 [kv_cache_utils.py:10] ready",
        "max_tokens=5, num_tokens: 7, tokens=3, key_cache=(2, 3), {'max_tokens': 16, 'token_ids': [1, 2]}",
        "pad_token: <pad>, \"bos_token\": \"[BOS]\", image_token='<img>', unk_token=AddedToken('x')",
        "token: 17, time per output token: 12.5 ms, --image-token x",
        "expected token ':', got 'end of print statement'",
        "def f(token: str, secret: Optional[str] = None)",
        "export HF_TOKEN=… where vLLM is started, API_KEY=...; host.hub_token = given (risk: low)",
        "the secret of it, the password is kept",
        "give-a-token: Create a token at https://huggingface.co/settings/tokens (risk: low)",
        "api-key: Write it into the environment",
        'd.yaml:4: unknown key "apikey": vLLM has no such flag',
        'unknown key "auth_password": vLLM has no such flag',
        "args.api-key: text is wanted",
        "env.HF_TOKEN: one word is wanted",
        "--keep hf_token: tokens are wanted, such as 8192",
        "the-token: the deployment has no launch of this name",
        "args.hf-token: there is no such file",
        "sha256:" + "0123456789abcdef" * 4,
        "0123456789abcdef" * 4,
        "/root/.cache/huggingface/hub/models--org--Name-7B/snapshots/0123456789ABCDEFabcdef",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert mask(text) == text


def test_long_hostile_lines_stay_linear() -> None:
    # A quadratic pattern would take minutes on these and run into the suite's time limit.
    for piece in (
        "A",
        "KEY",
        "token ",
        "hf_",
        "://a:",
        "Bearer ",
        "api_key=[",
        "eyJaaaaaaaaaa.",
        "_KEY",
        "password",
        "token-",
        "--token",
        "token  ",
        "-----BEGIN PRIVATE KEY-----",
        "\\",
        "pad_token",
    ):
        mask("key " + piece * (300_000 // len(piece)))


def test_env_is_masked_by_name_and_by_shape() -> None:
    env = {"HF_TOKEN": "x", "VLLM_API_KEY": "y", "MY_PASSWORD_FILE": "/p", "PATH": "/bin", "NOTE": HF, "EMPTY_KEY": ""}
    assert mask_env(env) == {
        "HF_TOKEN": "***", "VLLM_API_KEY": "***", "MY_PASSWORD_FILE": "***", "PATH": "/bin", "NOTE": "***",
        "EMPTY_KEY": "",
    }  # fmt: skip


def test_argv_is_masked_with_all_values_of_the_option() -> None:
    argv = ["vllm", "serve", "m", "--api-key", "one", "two", "--hf-token=three", "--port", "80"]
    assert mask_argv(argv) == ["vllm", "serve", "m", "--api-key", "***", "***", "--hf-token=***", "--port", "80"]
