"""Settings: defaults, the file we ship, and errors that name the place and the mend."""

from pathlib import Path

import msgspec
import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.loader import dump, load, parse
from slurm_plugin.config.setting_types import Mode, TimeUse, Trust
from slurm_plugin.config.settings import Config, JobNames, ModeRule
from slurm_plugin.config.settings_file import find

ROOT = Path(__file__).parents[3]


def test_the_commented_file_holds_the_defaults():
    shipped = load(ROOT / "etc" / "nimo.yaml")
    assert shipped == msgspec.structs.replace(Config(), store=shipped.store)


def test_the_commented_file_names_every_setting():
    text = (ROOT / "etc" / "nimo.yaml").read_text()
    sections = [kind for kind in msgspec.to_builtins(Config()).items() if isinstance(kind[1], dict)]
    names = [*Config.__struct_fields__, *(key for _, section in sections for key in section)]
    assert [name for name in names if f"{name}:" not in text] == []


def test_every_setting_survives_dump_and_parse():
    config = Config(mode=Mode.ENFORCE, rules=(ModeRule(partition="debug*", mode=Mode.OFF),))
    assert parse(dump(config), name="nimo.yaml") == config


def test_an_empty_file_is_the_defaults():
    assert parse("# nothing\n", name="nimo.yaml") == Config()


def test_off_is_a_word_not_a_boolean():
    assert parse("mode: off", name="nimo.yaml").mode is Mode.OFF


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("polcy: {}", "f: polcy: unknown key; did you mean 'policy'?"),
        ("policy: {prise: 1}", "f: policy.prise: unknown key; did you mean 'price'?"),
        ("rules: [{mod: off}]", "f: rules[0].mod: unknown key; did you mean 'mode'?"),
        (
            "deadline: {zzz: 1}",
            "f: deadline.zzz: unknown key; there are: missed, confidence, wait_factor",
        ),
        ("policy: {price: -1}", "f: policy.price: give a number > 0.0"),
        ("policy: {price: dear}", "f: policy.price: give a number, not text"),
        ("rules: [{mode: of}]", "f: rules[0].mode: 'of' is no choice; did you mean 'off'?"),
        ("rules: [{user: a}]", "f: rules[0]: give it mode, time_limit, "),
        ("mode: off\nmode: off", "f: line 2, column 1: 'mode' is given twice"),
        ("opt_in: {rules: [{cpus: 5-2}]}", "f: opt_in.rules[0].cpus: 5-2: give the lower"),
        ("opt_in: {rules: [{user: a}]}", "f: opt_in.rules[0]: give it nodes, cpus, tasks or gpus"),
        ("opt_in: {rules: [{nodes: 5-2}]}", "f: opt_in.rules[0].nodes: 5-2: give the lower"),
        ("{[a]: 1}", "f: line 1, column 2: a key is a word"),
        ("relay: {listen: 'a b'}", "f: relay.listen: 'a b' is no address"),
        ("relay: {controllers: [c, 'd:0']}", "f: relay.controllers[1]: 'd:0' is no address"),
        ("relay: {auth: tls, tls: {authority: a, certificate: c}}", "f: relay.tls.key: give it"),
        (
            "relay: {listen: c, auth: tls, tls: {authority: a, certificate: c, key: k}}",
            "f: relay.tls.login_nodes: give it",
        ),
        ("- a", "f: give a mapping, not a list"),
        ("a: [", "f: line 1, column 5: expected the node content"),
    ],
)
def test_errors_name_file_place_and_fix(text, reported):
    with pytest.raises(ConfigError) as caught:
        parse(text, name="f")
    assert str(caught.value).startswith(reported)


def test_text_of_the_file_is_never_evaluated():
    with pytest.raises(ConfigError, match="could not determine a constructor"):
        parse("store: !!python/object/apply:os.getcwd []", name="f")


def test_the_command_line_goes_before_the_environment(tmp_path):
    named, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    assert find(named, {"NIMO_CONFIG": str(other)}) == named
    assert find(None, {"NIMO_CONFIG": str(other)}) == other


def test_a_missing_file_is_an_error_not_the_defaults(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(None, {"NIMO_CONFIG": str(tmp_path / "none.yaml")})


def test_the_built_in_store_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Config().store_url == f"sqlite:///{tmp_path}/nimo/nimo.db"


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({"user": "alice", "application": "wrf/conus"}, True),
        ({"user": "alice", "application": "lammps"}, False),
        ({"user": "bob", "application": "wrf/conus"}, False),
    ],
)
def test_a_rule_holds_when_all_its_patterns_match(fields, held):
    rule = ModeRule(user="al*", application="wrf*", mode=Mode.ENFORCE)
    assert rule.holds(JobNames(**fields)) is held


def test_a_rule_takes_its_users_from_a_file(tmp_path):
    (tmp_path / "opted-out").write_text("alice\n# on leave\nbob*   # all of them\n\n")
    path = tmp_path / "nimo.yaml"
    path.write_text('rules: [{user: "@opted-out", mode: off}, {user: [carol, dan], mode: advise}]')
    config = load(path)
    given = {
        name: config.for_job(JobNames(user=name)).mode for name in ("alice", "bobby", "dan", "eve")
    }
    assert given == {
        "alice": Mode.OFF, "bobby": Mode.OFF, "dan": Mode.ADVISE, "eve": Mode.OBSERVE,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reported"),
    [(None, "cannot be read"), ("alice\nbob carol\n", "line 2: one name or pattern on each line")],
)
def test_a_list_that_cannot_be_read_is_named(tmp_path, text, reported):
    if text is not None:
        (tmp_path / "users").write_text(text)
    path = tmp_path / "nimo.yaml"
    path.write_text('opt_in: {rules: [{user: "@users", nodes: 1-4}]}')
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(tmp_path / "users") in str(caught.value)
    assert reported in str(caught.value)


def test_each_setting_of_a_job_comes_from_the_first_rule_that_says_it():
    config = Config(
        rules=(
            ModeRule(application="wrf", trust=Trust.ON),
            ModeRule(user="alice", time_limit=TimeUse.SET),
            ModeRule(user="a*", mode=Mode.ENFORCE, time_limit=TimeUse.OFF),
        )
    )
    alice = config.for_job(JobNames("p", user="alice", application="wrf"))
    other = config.for_job(JobNames("p", user="anna", application="x"))
    assert (alice.mode, alice.time_limit, alice.trust) == (Mode.ENFORCE, TimeUse.SET, Trust.ON)
    assert (other.mode, other.time_limit, other.trust) == (Mode.ENFORCE, TimeUse.OFF, Trust.AUTO)


@pytest.mark.parametrize(
    ("mode", "rules", "changes_nothing"),
    [
        (Mode.OBSERVE, (), True),
        (Mode.OFF, (ModeRule(user="a", mode=Mode.OBSERVE), ModeRule(trust=Trust.OFF)), True),
        (Mode.ADVISE, (), False),
        (Mode.ENFORCE, (), False),
        (Mode.OBSERVE, (ModeRule(user="a", mode=Mode.ADVISE),), False),
    ],
)
def test_whether_any_job_may_be_changed(mode, rules, changes_nothing):
    assert Config(mode=mode, rules=rules).changes_nothing is changes_nothing
