"""What `ration` itself answers."""

import re

import pytest


def test_version(ration):
    out = ration("--version")
    assert out.returncode == 0
    assert re.fullmatch(r"ration \d+\.\d+\.\d+\n", out.stdout)
    assert ration("run", "--version").stdout == out.stdout


def test_help_lists_the_commands(ration):
    out = ration("--help")
    assert out.returncode == 0
    for command in ("run", "ps", "limit", "doctor"):
        assert re.search(rf"^  {command} ", out.stdout, re.M)
    assert "probe" not in out.stdout


@pytest.mark.parametrize("command", ["run", "ps", "limit", "doctor"])
def test_help_of_each_command(ration, command):
    out = ration(command, "--help")
    assert out.returncode == 0
    assert out.stdout.startswith(f"Usage: ration {command} ")
    assert ration("help", command).stdout == out.stdout


def test_without_arguments_it_says_how_to_use_it(ration):
    out = ration()
    assert out.returncode == 2
    assert out.stdout == ""
    assert "Usage: ration COMMAND" in out.stderr


@pytest.mark.parametrize("word", ["rum", "--frob", ""])
def test_unknown_command(ration, word):
    out = ration(word)
    assert out.returncode == 2
    assert f"'{word}'" in out.stderr and "run, ps, limit and doctor" in out.stderr


@pytest.mark.parametrize("command", ["ps", "doctor"])
def test_arguments_that_mean_nothing(ration, command):
    out = ration(command, "extra")
    assert out.returncode == 2
    assert "'extra'" in out.stderr


@pytest.mark.parametrize("command", ["run", "ps", "limit", "doctor"])
def test_unknown_option(ration, command):
    out = ration(command, "--frob")
    assert out.returncode == 2
    assert "--frob" in out.stderr
