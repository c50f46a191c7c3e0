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
    """Whoever sends more is refused; of equal ones, those that wait stay."""
    turns = LoginTurns[str]()
    for number in range(MAX_WAITING_OF_NETWORK):
        assert turns.put(f"a{number}", "a", is_suspect=False) is None
    assert turns.put("a", "a", is_suspect=False) == "a"
    for number in range(MAX_WAITING_OF_NETWORK, MAX_WAITING):
        assert turns.put(str(number), str(number), is_suspect=False) is None
    assert [turns.put(new, new, is_suspect=False) for new in "bdef"] == ["a3", "a2", "a1", "f"]
    assert turns.put("c", "c", is_suspect=True) == "c"
    assert len(turns) == MAX_WAITING


def test_of_too_many_connections_those_of_the_network_with_the_most_are_closed() -> None:
    """Its oldest first; among equals the one that was there first."""
    origins = dict(zip("abcdefg", ["x", "y", "y", "z", "y", "z", "w"], strict=True))
    assert surplus(origins, 7) == []
    assert surplus(origins, 6) == ["b"]
    assert surplus(origins, 4) == ["b", "c", "d"]
    assert surplus(origins, 3) == ["b", "c", "d", "a"]


def test_a_site_of_65536_networks_has_no_more_turns_than_one_address() -> None:
    """A flood from a /48, each guess from another /64: a first login from elsewhere is the next."""
    turns = LoginTurns[str]()
    for number in range(200):
        turns.put(f"guess {number}", network(f"2001:db8:1:{number:x}::1"), is_suspect=False)
    assert len(turns) == MAX_WAITING
    assert turns.put("first", network("2001:db8:2::1"), is_suspect=False) == "guess 15"
    assert turns.put("v4", "192.0.2.1", is_suspect=False) == "guess 14"
    order = [turns.popleft() for _ in range(4)]
    assert "first" in order
    assert "v4" in order


def test_a_provider_of_65536_sites_has_no_more_turns_than_one_address() -> None:
    """And of its sites those that send little are not kept waiting by the one that floods."""
    turns = LoginTurns[str]()
    for number in range(200):
        turns.put(f"guess {number}", network(f"2001:db8:{number:x}::1"), is_suspect=True)
    assert turns.put("first", network("2001:db9::1"), is_suspect=True) == "guess 15"
    assert "first" in [turns.popleft() for _ in range(2)]
    for number in range(20):
        turns.put(f"more {number}", network(f"2001:db8:ffff:{number:x}::1"), is_suspect=True)
    turns.put("customer", network("2001:db8:aaaa::1"), is_suspect=True)
    assert "customer" in [turns.popleft() for _ in range(MAX_WAITING)]


def test_a_second_login_of_one_network_is_not_overtaken_by_each_that_comes_later() -> None:
    """New networks without end come behind those that wait already."""
    turns = LoginTurns[str]()
    for login in ("a1", "a2"):
        turns.put(login, "a", is_suspect=False)
    order = []
    for number in range(8):
        turns.put(f"new {number}", f"net {number}", is_suspect=False)
        order.append(turns.popleft())
    assert order[0] == "a1"
    assert "a2" in order[:3]


def test_a_site_that_opens_connections_from_many_networks_loses_its_own() -> None:
    """One connection of each /64; the one of a first login from elsewhere stays open."""
    origins = {"first": network("2001:db8:2::1")}
    origins |= {f"c{n}": network(f"2001:db8:1:{n:x}::1") for n in range(10)}
    assert surplus(origins, 6) == ["c0", "c1", "c2", "c3", "c4"]
