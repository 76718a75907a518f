"""Which script answers which request."""

from __future__ import annotations

import pytest

from slotline.stub.plan import Plan, Repertoire, Side, parse
from slotline.stub.script import Hang, Script
from slotline.stub.standard import die, hang, ok


def test_the_queue_goes_before_the_model_and_the_model_before_its_name() -> None:
    repertoire = Repertoire()
    repertoire.models["stub-die-1"] = ok(9)
    repertoire.play(ok(1), ok(2))
    assert [repertoire.choose("stub-die-1") for _ in range(3)] == [ok(1), ok(2), ok(9)]
    assert repertoire.choose("stub-die-2") == die(2)
    assert repertoire.choose("anything") is None


def test_a_plan_is_an_object_a_script_a_name_or_a_list() -> None:
    assert parse('{"queue": ["ok-1"], "sides": {"/health": {"delay": 1}}}') == Plan(
        queue=["ok-1"], sides={"/health": Side(delay=1)}
    )
    assert parse('{"steps": [{"do": "hang"}]}') == Plan(default=Script((Hang(),)))
    assert parse('"die-2"') == Plan(default="die-2")
    assert parse('["ok-1", {"steps": []}]') == Plan(queue=["ok-1", Script()])


@pytest.mark.parametrize(
    "text", ['"nothing-3"', '["ok-x"]', '{"que": []}', "3", "null", '{"models": {"m": "no"}}', "{"]
)
def test_a_plan_that_means_nothing_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_applying_a_plan_changes_only_what_it_names() -> None:
    repertoire = Repertoire()
    repertoire.play(ok(1))
    repertoire.apply(Plan(models={"m": "hang"}))
    assert list(repertoire.queued) == [ok(1)]
    assert repertoire.models == {"m": hang()}
    repertoire.apply(Plan(queue=[]))
    assert not repertoire.queued
    assert repertoire.models == {"m": hang()}
