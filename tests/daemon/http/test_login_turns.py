"""Turns of logins: one guesser, or many, and a first login from elsewhere."""

from __future__ import annotations

import pytest

from iowarden.daemon.http.login_turns import (
    MAX_WAITING,
    MAX_WAITING_OF_NETWORK,
    LoginTurns,
    network,
    surplus,
)


@pytest.mark.parametrize(
    ("address", "of"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2::1", "20010db800010002::/64"),
        ("2001:db8:1:2:ffff::9%eth0", "20010db800010002::/64"),
        ("2001:db8:1:3::1", "20010db800010003::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
    ],
)
def test_a_client_of_ipv6_is_its_64_bits_of_network(address: str, of: str) -> None:
    """One host has all addresses of it."""
    assert network(address) == of


def test_networks_take_turns() -> None:
    """One that sends many at once gets one before another gets its own."""
    turns = LoginTurns[str]()
    for login in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert turns.put(login, login[0], is_suspect=False) is None
    assert [turns.popleft() for _ in range(len(turns))] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    with pytest.raises(IndexError):
        turns.popleft()


def test_a_first_login_goes_before_those_of_200_networks_that_guessed() -> None:
    """And one of them that has a correct password has every fourth turn."""
    turns = LoginTurns[str]()
    for number in range(200):
        turns.put(f"guess {number}", str(number), is_suspect=True)
    assert len(turns) == MAX_WAITING
    assert turns.put("first", "home", is_suspect=False) == f"guess {MAX_WAITING - 1}"
    assert turns.popleft() == "first"
    for number in range(8):
        turns.put(f"first {number}", f"net {number}", is_suspect=False)
    order = [turns.popleft()[:5] for _ in range(8)]
    assert order == ["first", "first", "guess", "first", "first", "first", "guess", "first"]


def test_what_waits_is_limited_in_total_and_for_each_network() -> None:
    """Whoever sends more is refused; those that wait stay."""
    turns = LoginTurns[str]()
    for number in range(MAX_WAITING_OF_NETWORK):
        assert turns.put(f"a{number}", "a", is_suspect=False) is None
    assert turns.put("a", "a", is_suspect=False) == "a"
    for number in range(MAX_WAITING_OF_NETWORK, MAX_WAITING):
        assert turns.put(str(number), str(number), is_suspect=False) is None
    assert turns.put("b", "b", is_suspect=False) == "b"
    assert turns.put("c", "c", is_suspect=True) == "c"
    assert len(turns) == MAX_WAITING


def test_of_too_many_connections_those_of_the_network_with_the_most_are_closed() -> None:
    """Its oldest first; among equals the one that was there first."""
    origins = dict(zip("abcdefg", ["x", "y", "y", "z", "y", "z", "w"], strict=True))
    assert surplus(origins, 7) == []
    assert surplus(origins, 6) == ["b"]
    assert surplus(origins, 4) == ["b", "c", "d"]
    assert surplus(origins, 3) == ["b", "c", "d", "a"]
