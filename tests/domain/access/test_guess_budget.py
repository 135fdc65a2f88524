"""The budget of wrong secrets, and the source that an address is counted under."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.access.guess_budget import Budget, source_of

BUDGET = Budget(3, 10)


def test_a_budget_is_spent_and_refills() -> None:
    """Three at once are within it, the fourth is not; after one refill one more is."""
    until, debts = 0, []
    for _ in range(4):
        until = BUDGET.spend(until, 1000)
        debts.append(BUDGET.debt(until, 1000))
    assert debts == [0, 0, 0, 10]
    assert BUDGET.debt(until, 1010) == 0
    assert BUDGET.debt(BUDGET.spend(until, 1010), 1010) == 10
    assert BUDGET.debt(BUDGET.spend(until, 1100), 1100) == 0


@given(st.lists(st.integers(0, 50), max_size=200))
def test_debt_is_bounded(pauses: list[int]) -> None:
    """However many wrong secrets were shown, the debt is never more than one whole budget."""
    until = now = 0
    for pause in pauses:
        now += pause
        until = BUDGET.spend(until, now)
        assert 0 <= BUDGET.debt(until, now) <= BUDGET.wrong * BUDGET.refill


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_sources(address: str, source: str) -> None:
    """IPv4 addresses count one by one, IPv6 ones by their /64."""
    assert source_of(address) == source
