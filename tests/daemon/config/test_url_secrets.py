"""Which parts of a receiver's URL are secrets: tokens, and never words."""

from __future__ import annotations

import random
import string
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.config.load import load_config
from iowarden.daemon.config.parser import ConfigError
from iowarden.daemon.config.url_secrets import is_random, secrets
from iowarden.daemon.redactor import MARK

if TYPE_CHECKING:
    from pathlib import Path


def loaded(folder: Path, url: str, kind: str = "webhook") -> str:
    """Return the path of a configuration with a receiver whose URL is in a file."""
    (folder / "url").write_text(url + "\n")
    (folder / "url").chmod(0o640)
    entry = f"{{name: a, type: {kind}, url_file: {folder}/url}}"
    (folder / "iowarden.yaml").write_text(f"notify:\n  - {entry}\n")
    return str(folder / "iowarden.yaml")


@pytest.mark.parametrize(
    ("path", "token"),
    [
        ("/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "X" * 24),  # Slack
        ("/triggers/T00000000/1234567890/abababababababab", "abababababababab"),
        ("/api/webhooks/123456789/anonymousanonymous/slack", "anonymousanonymous"),  # Discord
        ("/bot123456789:letters/sendMessage?chat_id=-100", "letters"),  # Telegram
        ("/webhookb2/g@h/IncomingWebhook/lettersletters/i", "lettersletters"),  # Teams
        ("/workflows/x/triggers/manual/paths/invoke?sp=%2Frun&sv=1.0&sig=letters", "letters"),
        ("/storage-a7Kq9zP", "storage-a7Kq9zP"),  # ntfy
        ("/webhook/3f2504e0-4f89-41d3-9a0c-0305e82c3301", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
        ("/_matrix/client/v3/x?access_token=letters", "letters"),  # Matrix
        ("/hooks/" + "ab" * 13, "ab" * 13),  # Mattermost
        ("/api/push/aB3dE5f?status=up&msg=OK", "aB3dE5f"),  # Uptime Kuma
        ("/hook/a7Kq9zP", "a7Kq9zP"),
        ("/hook?a7Kq9zP", "a7Kq9zP"),
        ("/hook?x=a7%2BKq9zP", "a7%2BKq9zP"),
        ("/hook?apiKey=iowarden", "iowarden"),
        ("/hook?X-Amz-Signature=letters", "letters"),
        ("/hook?user_password=letters", "letters"),
    ],
)
def test_a_token_is_a_secret_by_its_name_its_place_or_its_look(path: str, token: str) -> None:
    """Of the services that people send to."""
    assert token in secrets(path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/hook?source=iowarden",
        "/hook?wait=true&format=json&severity=critical&priority=5",
        "/hook?host=storage-server-node12.example.com&channel=%23ops-alerts&room=disk_alerts",
        "/hook?to=%2B491234567&api-version=2016-06-01&window=30min",
        "/generic/webhook/iowarden/v1/sendMessage.json",
        "/prometheus-alertmanager/api/v2/alerts",
        "/storage-alerts",
        "/rooms/kubernetes/grafana-oncall/opsGenie/x86_64/btrfs/nginx",
        "/hook?monkey=banana&keyboard=layout&passenger=letters&author=somebody",
        "/a/b1/c2d/7-8",
    ],
)
def test_what_is_made_of_words_and_small_numbers_is_no_secret(path: str) -> None:
    """It would be replaced in every log message; and where a name only begins like a secret's."""
    assert secrets(path) == ()


def test_several_names_in_a_row_are_a_passphrase(tmp_path: Path) -> None:
    """Four in a path, three in a topic of ntfy; fewer are what log messages have, as hosts'."""

    def learnt(kind: str, path: str) -> tuple[str, ...]:
        return load_config(loaded(tmp_path, f"https://x.example.com{path}", kind)).redactor.secrets

    assert learnt("webhook", "/hidden-path-of-the-hook") == ("hidden-path-of-the-hook",)
    assert learnt("ntfy", "/quokka-wombat-topic") == ("quokka-wombat-topic",)
    for path in ("/storage", "/storage-alerts", "/storage-server-node12", "/n1.west.example.com"):
        assert learnt("webhook", path) == ()
    for topic in ("/storage", "/storage-alerts"):
        assert learnt("ntfy", topic) == ()
    assert secrets("/hidden-path-of-the-hook") == (), "it may stand in the configuration"


@pytest.mark.parametrize(
    ("alphabet", "characters", "most_missed"),
    [
        (string.ascii_letters + string.digits, 8, 0.05),
        (string.ascii_letters + string.digits, 12, 0.01),
        (string.ascii_lowercase + string.digits, 10, 0.05),
        (string.ascii_lowercase + string.digits, 16, 0.002),
        (string.hexdigits[:16], 16, 0.002),
        (string.ascii_lowercase, 20, 0.0),
        (string.ascii_letters, 16, 0.01),
    ],
)
def test_random_tokens_look_random(alphabet: str, characters: int, most_missed: float) -> None:
    """Of each alphabet that services take; of few letters alone some look like a word."""
    chosen = random.Random(7)
    tokens = ["".join(chosen.choices(alphabet, k=characters)) for _ in range(2000)]
    missed = [token for token in tokens if not is_random(token)]
    assert len(missed) <= most_missed * len(tokens), missed[:5]


def test_a_word_of_a_url_stays_in_the_log_and_its_token_does_not(tmp_path: Path) -> None:
    """'source=iowarden' once replaced the name of the program in its own journal."""
    url = "https://hooks.example.com/alerts/a7Kq9zP?source=iowarden&wait=true"
    redact = load_config(loaded(tmp_path, url)).redactor.text
    assert redact("iowarden: true alerts of hooks") == "iowarden: true alerts of hooks"
    assert redact("404: no /alerts/a7Kq9zP") == f"404: no /alerts/{MARK}"


def test_a_secret_by_its_name_must_be_long_enough_to_be_replaced(tmp_path: Path) -> None:
    """And a short value of another name is none."""
    load_config(loaded(tmp_path, "https://hooks.example.com/x?wait=true&v=2"))
    with pytest.raises(ConfigError, match="at least 6 characters") as caught:
        load_config(loaded(tmp_path, "https://hooks.example.com/x?token=Kq9zP"))
    assert "Kq9zP" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "advice", "never"),
    [
        ("alertmanager", "use 'user' and 'password_file'", "token_file"),
        ("webhook", "a receiver of type webhook has 'token_file'", "password_file"),
        ("ntfy", "a receiver of type ntfy has 'token_file'", "password_file"),
        ("slack", "by a secret path or query only, in its 'url_file'", "token_file"),
        ("ping", "by a secret path or query only, in its 'url_file'", "token_file"),
    ],
)
def test_a_url_with_a_password_is_answered_by_keys_that_this_receiver_has(
    tmp_path: Path, kind: str, advice: str, never: str
) -> None:
    """The advice names no key that is refused next."""
    with pytest.raises(ConfigError) as caught:
        load_config(loaded(tmp_path, "https://user:hunter2-pw@hooks.example.com/x", kind))
    assert advice in str(caught.value)
    assert never not in str(caught.value)
    assert "hunter2" not in str(caught.value)
