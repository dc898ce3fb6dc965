"""nimo_hook.conf."""

import pytest

from tests.lua.conftest import Load


def read(runtime: Load, text: str) -> tuple[dict[str, object], list[str]]:
    hooks = runtime()
    path = hooks.folder / "other.conf"
    path.write_text(text)
    result = hooks.lua.execute(f"""
        package.path = "{hooks.folder}/?.lua;" .. package.path
        local settings, complaints = require("nimo_settings").read("{path}")
        return {{ settings = settings, complaints = complaints }}""")
    return dict(result.settings.items()), list(result.complaints.values())


def test_values_take_the_type_of_their_default(runtime):
    settings, complaints = read(
        runtime, "# comment\n\nsocket = /run/x y.sock \n timeout_ms=7.5\nforward_deadline = yes\n"
    )
    assert complaints == []
    assert (settings["socket"], settings["timeout_ms"]) == ("/run/x y.sock", 7.5)
    assert settings["forward_deadline"] is True
    assert settings["breaker_s"] == 30


@pytest.mark.parametrize(
    "line",
    [
        *("timeout_ms = fast", "timeout_ms = -1", "timeout_ms = 1e999", "forward_deadline = true"),
        *("forward_deadline =", "sockt = /x", "socket =", "socket", "os.execute('x')"),
    ],
)
def test_bad_lines_are_named_and_leave_the_defaults(runtime, line):
    defaults, _ = read(runtime, "")
    settings, complaints = read(runtime, f"breaker_s = 30\n{line}\n")
    assert settings == defaults
    assert len(complaints) == 1
    assert f":2: not understood: {line}" in complaints[0]


def test_no_setting_lifts_the_hooks_own_limits(runtime):
    settings, complaints = read(runtime, "timeout_ms = 5000\nleast_limit_share = 1.5\n")
    assert (settings["timeout_ms"], settings["least_limit_share"]) == (100, 1)
    assert len(complaints) == 2
    assert any("timeout_ms is 100 at most" in complaint for complaint in complaints)


def test_bad_settings_are_logged_when_the_hook_is_loaded(runtime):
    hooks = runtime("timeout_ms = soon").load()
    assert "timeout_ms = soon" in hooks.stub.log[1]
