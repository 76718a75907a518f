"""Keys that do not exist where they stand (B154, B155): refused with the path and the nearest valid key."""

from __future__ import annotations

import pytest

from slotline.config import ConfigError, load

BOX = '[[upstream]]\nname = "box1"\nurl = "http://127.0.0.1:1"\n'


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        load(text, source="slotline.toml")
    return error.value


def test_b154_slots_at_the_wrong_level_is_refused_with_the_place_where_it_belongs() -> None:
    assert str(refused("slots = 4\n" + BOX)) == (
        "slotline.toml:1: slots = 4\n"
        "  There is no `slots` at the top of the file; it belongs in [[upstream]] or [engine]."
    )


def test_b154_slots_misspelt_is_refused_with_the_nearest_key() -> None:
    assert str(refused(BOX + "slotz = 4\n")) == (
        'slotline.toml:4: [[upstream]] "box1" slotz = 4\n  There is no `slotz` in [[upstream]]. Did you mean `slots`?'
    )


def test_b155_a_misspelt_secret_at_the_top_is_refused_and_not_shown() -> None:
    error = refused('admin_tokn = "hunter2"\n')
    assert error.nearest == "`token_env` in [admin]"
    assert error.key == "admin_tokn"
    assert "hunter2" not in str(error)


def test_b155_a_misspelt_secret_in_its_table_is_refused_and_not_shown() -> None:
    error = refused('[admin]\nadmin_tokn = "hunter2"\n')
    assert error.nearest == "`token_env`"
    assert error.key == "[admin] admin_tokn"
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("[server]\nprot = 1\n", "[server] prot", "`port`"),
        ("[server]\nmaxbody = 1\n", "[server] maxbody", "`max_body`"),
        ("[servr]\nport = 1\n", "servr", "[server]"),
        ("[[upstreams]]\n", "upstreams", "[[upstream]]"),
        ("server_port = 1\n", "server_port", "`port` in [server]"),
        (BOX + "busy_wate = 1\n", '[[upstream]] "box1" busy_wate', "`busy_wait` in [upstream.limits]"),
        (BOX + "[upstream.limts]\n", '[[upstream]] "box1" limts', "`limits`"),
        (BOX + "[upstream.limits]\nlivness = 1\n", '[[upstream]] "box1" limits.livness', "`liveness`"),
        ('[[upstream]]\nnmae = "a"\n', "[[upstream]] number 1 nmae", "`name`"),
        ('[[model]]\nname = "m"\nalias = []\n', '[[model]] "m" alias', "`aliases`"),
        ('[[key]]\nname = "k"\nwait = 1\n', '[[key]] "k" wait', "`waiting`"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest(text: str, key: str, nearest: str) -> None:
    error = refused(text)
    assert (error.file, error.key, error.nearest) == ("slotline.toml", key, nearest)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[server]\nqueue = 3\n", "it belongs in [[upstream]]."),
        ("[server]\nbusy_wait = '1s'\n", "it belongs in [upstream.limits]."),
        (BOX + "drain = '1s'\n", "it belongs in [server] or [upstream.limits]."),
        (BOX + "[upstream.limits]\nqueue = 3\n", "Move it above the line [upstream.limits]."),
        (BOX + "model = 'm'\n", "it belongs in [engine]."),
        (BOX + "key = 'k'\n", "api_key_env"),
        ("[server]\nengine = 1\n", "a table of its own: [engine]."),
        ("[limits]\n", "a table of its own: [upstream.limits]."),
        ("[admin]\nport = 1\n", "it belongs in [server]."),
    ],
)
def test_a_misplaced_key_is_refused_with_its_place(text: str, says: str) -> None:
    assert says in refused(text).message


def test_a_key_like_no_other_is_refused_with_all_that_may_stand_there() -> None:
    error = refused("[cluster]\nzzz = 1\n")
    assert error.nearest is None
    assert error.message.endswith("What may stand here: url, namespace, lease, password_env.")
    assert "[[upstream]]" in refused("zzz = 1\n").message


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (BOX + 'api_key = "hunter2"\n', "api_key_env"),
        (BOX + 'token = "hunter2"\n', "api_key_env"),
        ('[admin]\ntoken = "hunter2"\n', "token_env"),
        ('[admin]\nPassword = "hunter2"\n', "token_env"),
        ('[[key]]\nname = "a"\nkey = "hunter2"\n', "slotline keys new NAME"),
    ],
)
def test_a_secret_in_the_file_is_refused_with_the_way_to_give_it_and_not_shown(text: str, instead: str) -> None:
    error = refused(text)
    assert error.message.startswith("A secret never stands in the file.")
    assert instead in error.message
    assert "hunter2" not in str(error)
