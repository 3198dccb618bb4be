"""What `ration` itself answers."""

import os
import re
import subprocess

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


@pytest.mark.parametrize("command", ["run", "ps", "limit", "suspend", "resume", "doctor"])
def test_help_of_each_command(ration, command):
    out = ration(command, "--help")
    assert out.returncode == 0
    assert out.stdout.startswith(f"Usage: ration {command} ")
    assert ration("help", command).stdout == out.stdout
    # A line that is just filled is followed by one of blanks.
    assert not re.search(r"^ +$", out.stdout, re.M)


def test_without_arguments_it_says_how_to_use_it(ration):
    out = ration()
    assert out.returncode == 2
    assert out.stdout == ""
    assert "Usage: ration COMMAND" in out.stderr


@pytest.mark.parametrize("word", ["rum", "--frob", ""])
def test_unknown_command(ration, word):
    out = ration(word)
    assert out.returncode == 2
    assert f"'{word}'" in out.stderr and "run, ps, limit, suspend, resume and doctor" in out.stderr


@pytest.mark.parametrize("command", ["ps", "doctor"])
def test_arguments_that_mean_nothing(ration, command):
    out = ration(command, "extra")
    assert out.returncode == 2
    assert "'extra'" in out.stderr


@pytest.mark.parametrize("command", ["run", "ps", "limit", "doctor"])
def test_unknown_option(ration, command):
    out = ration(command, "--frob=1")
    assert out.returncode == 2
    options = re.findall(r"^  -\w, (--\w+)", ration(command, "--help").stdout, re.M)
    assert "unrecognized option '--frob';" in out.stderr
    assert options and all(option in out.stderr for option in options)


@pytest.mark.parametrize("command, word", [("run", "-mem"), ("run", "-mem=1g"), ("run", "-name"), ("run", "-movable"),
                                           ("limit", "-sm"), ("suspend", "-deep"), ("ps", "-json"), ("run", "-help")])
def test_a_long_option_with_one_dash(ration, command, word):
    """Taken for letters -mem would be the memory limit "em", -name the name "ame"."""
    out = ration(command, word, "1g", "true")
    assert (out.returncode, out.stdout) == (2, "")
    name = word.split("=")[0]
    assert out.stderr == f"ration {command}: '{name}' has one dash; write -{name}\n"


def test_words_that_are_no_options_of_ours(ration):
    """Values, what a command is given, abbreviations."""
    assert ration("run", "--mem", "1g", "echo", "--frob").stdout == "--frob\n"
    assert ration("run", "-m", "1g", "--nam=a", "--", "echo", "--frob").stdout == "--frob\n"
    assert "--name: '--frob' " in ration("run", "-n", "--frob", "true").stderr
    assert "--name: '--frob' " in ration("run", "--name", "--frob", "true").stderr
    assert "--name: '-mem' " in ration("run", "-n", "-mem", "true").stderr
    assert "no tenant '--frob'" in ration("limit", "--", "--frob").stderr


WRITING = [["--help"], ["--version"], ["help"], ["help", "run"], ["run", "--help"], ["run", "--usage"],
           ["run", "--version"], ["ps"], ["ps", "--json"], ["ps", "--help"], ["doctor", "--help"]]


def without_output(ration, args, how):
    with open("/dev/full", "w") as full:
        return subprocess.run([ration.path, *args], env=ration.env, text=True, timeout=60,
                              stdout=full if how == "full" else None, stderr=subprocess.PIPE, check=False,
                              preexec_fn=(lambda: os.close(1)) if how == "closed" else None)


@pytest.mark.parametrize("how, why", [("full", "No space left"), ("closed", "Bad file descriptor")])
@pytest.mark.parametrize("args", WRITING, ids=" ".join)
def test_output_that_cannot_be_written(ration, args, how, why):
    out = without_output(ration, args, how)
    assert out.returncode == 1
    # Before it, ps may name a file of this machine that it cannot read.
    last = out.stderr.splitlines()[-1]
    assert re.fullmatch(r"ration: standard output cannot be written \(.*\)", last)
    assert why in last


@pytest.mark.parametrize("how", ["full", "closed"])
def test_doctor_whose_output_cannot_be_written(ration, sim, how):
    out = without_output(ration, ["doctor", "--sim"], how)
    assert out.returncode == 1
    assert "standard output cannot be written" in out.stderr


@pytest.mark.parametrize("how", ["full", "closed"])
@pytest.mark.parametrize("args, status", [(["run", "sh", "-c", "exit 3"], 3), (["run", "/nonexistent"], 127),
                                          (["run"], 2), (["frob"], 2), ([], 2)])
def test_output_that_is_not_needed(ration, args, status, how):
    assert without_output(ration, args, how).returncode == status
