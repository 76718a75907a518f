"""Which clients need beats, and when."""

from __future__ import annotations

import pytest

from slotline.core.anthropic.clients import BEAT_AFTER, Watchdog, counts_only_events


@pytest.mark.parametrize(
    "user_agent",
    [
        "claude-cli/2.1.197 (external, cli)",
        "claude-cli/2.1.331 (external, sdk-cli)",
        "claude-cli/1.999.999",
        "claude-cli/2.1",
        "claude-cli/2",
        "Claude-CLI/2.1.197",
        "some-wrapper/3.0 claude-cli/2.1.197 (external, cli)",
    ],
)
def test_claude_code_before_the_version_known_good_counts_only_events(user_agent: str) -> None:
    assert counts_only_events(user_agent)


@pytest.mark.parametrize("user_agent", ["claude-cli", "claude-cli/", "claude-cli/dev"])
def test_one_that_tells_no_version_may_be_as_old(user_agent: str) -> None:
    assert counts_only_events(user_agent)


@pytest.mark.parametrize(
    "user_agent",
    [
        "claude-cli/2.1.332 (external, sdk-cli)",
        "claude-cli/2.1.1000",
        "claude-cli/2.2",
        "claude-cli/3.0.0",
        "claude-cli/99999999999999999999.0.0",
        "Anthropic/Python 2.14.0",
        "not-claude-cli/1.0.0",
        "claude-client/1.0.0",
        "",
    ],
)
def test_newer_ones_and_all_other_clients_do_not(user_agent: str) -> None:
    assert not counts_only_events(user_agent)


def test_an_event_is_due_when_nothing_of_the_answer_was_sent_for_long() -> None:
    dog = Watchdog(240)
    assert [dog.hungry(0, waited) for waited in (10, 230, 239.9, 240, 250, 10_000)] == [False] * 3 + [True] * 3


def test_an_answer_that_goes_on_is_enough_and_its_silence_is_counted_anew() -> None:
    dog = Watchdog(240)
    assert dog.hungry(0, 250)
    assert [dog.hungry(*seen) for seen in ((7, 255), (7, 494), (7, 495), (8, 500))] == [False, False, True, False]


def test_whoever_is_looked_at_once_a_pulse_has_an_event_within_its_300_seconds() -> None:
    """The answer may go on just after a look, and be seen at the next; and be due just after a look, as well."""
    assert BEAT_AFTER + 2 * Watchdog(BEAT_AFTER).pulse < 300
    assert Watchdog(BEAT_AFTER).pulse <= 60
