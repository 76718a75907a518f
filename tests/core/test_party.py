"""Who asks."""

from __future__ import annotations

import math

import pytest

from slotline.core.party import NOBODY, Party


@pytest.mark.parametrize("weight", [0, -1, math.inf, math.nan])
def test_a_weight_is_a_share(weight: float) -> None:
    with pytest.raises(ValueError, match="'alice': weight must be more than 0"):
        Party("alice", weight=weight)


def test_those_of_whom_nothing_is_known_are_one_party_without_limits() -> None:
    assert Party() == NOBODY
    assert (NOBODY.running, NOBODY.waiting, NOBODY.batch, NOBODY.weight) == (None, None, False, 1)
