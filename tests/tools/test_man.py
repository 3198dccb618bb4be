"""The manual says what there is."""

import re
from pathlib import Path

import pytest
import region

ROOT = Path(__file__).resolve().parents[2]


def page(name):
    """A page's text: no macros' backslashes, no escapes of dashes."""
    return (ROOT / "docs" / "man" / name).read_text().replace("\\", "")


@pytest.mark.parametrize("command", ["run", "ps", "limit", "suspend", "resume", "doctor"])
def test_every_option_is_in_the_manual(ration, command):
    options = set(re.findall(r"^  (?:-(\w), |    )--(\w+)", ration(command, "--help").stdout, re.M))
    options = {o for o in options if o[1] not in ("help", "usage", "version")}
    assert options
    text = page(f"ration-{command}.1")
    for short, name in options:
        written = f"Fl {short} , Fl Fl {name}" if short else f"Fl Fl {name}"
        assert f".Op {written}" in text


def test_every_command_is_in_the_manual(ration):
    commands = re.findall(r"^  (\w+) ", ration("--help").stdout, re.M)
    assert commands
    for command in commands:
        assert f".It Cm {command}" in page("ration.1")


def test_size_of_the_file_in_the_manual():
    assert f"file takes {region.FILE_BYTES / (1 << 20):.1f} MiB." in page("ration.7")


def test_every_variable_is_in_the_manual():
    rows = re.findall(r"^CONF\((\w+),", (ROOT / "src/base/conf.def").read_text(), re.M)
    assert rows
    for name in rows:
        assert name in page("ration.7")
