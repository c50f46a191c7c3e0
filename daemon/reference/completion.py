"""Completion of the command in bash, zsh and fish: by shtab, from the parser of all commands.

Made when the package is built, not while a user types: a program that starts for each Tab key is
slow, and hangs with the disk that it is on. What only this host has is read by the shell itself:
disks from sysfs, which answers from memory, and incidents and silences, in bash, from the service's
/metrics. Limits: that at its default address, without TLS and login; zsh and fish complete neither,
and only the names of labels.
"""

from __future__ import annotations

import argparse

import shtab

from iowarden.daemon.cli.main import full_parser
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_shipped
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.rulefile.rulefile import Rule
from iowarden.rules.severity import Severity

FILES = {
    "bash": "bash-completion/completions/iowarden",
    "zsh": "zsh/vendor-completions/_iowarden",
    "fish": "fish/vendor_completions.d/iowarden.fish",
}
"""The file of each shell below /usr/share.

Source: the names that bash-completion and fish look for; fpath of Debian's zsh.
"""
_KINDS = {
    "FILE": shtab.FILE,
    "IN": shtab.FILE,
    "OUT": shtab.FILE,
    "PATH": shtab.FILE,
    "RECORDING": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}
"""What is completed as a path, by metavar."""


_LABELS = ("alertname", "condition", "device", "disk", "mountpoint", "severity")
"""What silences are about most often."""
_SHELL_DISKS = """\
_iowarden_disks() {
  local disk
  for disk in /sys/block/*; do
    case ${disk##*/} in
      loop*|ram*|zram*|sr*|fd*|nbd*) ;;
      *) [ -e "$disk" ] && printf '%s\\n' "${disk##*/}" ;;
    esac
  done
}
"""
_BASH = """\
_iowarden_label() {
  local text service seen=' '
  { exec {service}<>/dev/tcp/ADDRESS; } 2>/dev/null || return
  printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&$service
  IFS= read -r -t 2 -N 4000000 -u $service text
  exec {service}>&-
  while [[ $text =~ [,{]$1=\\"([0-9a-f]+)\\" ]]; do
    [[ $seen == *" ${BASH_REMATCH[1]} "* ]] || seen+="${BASH_REMATCH[1]} "
    text=${text#*"${BASH_REMATCH[0]}"}
  done
  printf '%s' "$seen"
}
_iowarden_complete_disks() { compgen -W "$(_iowarden_disks)" -- "$1"; }
_iowarden_complete_incidents() { compgen -W "$(_iowarden_label incident)" -- "$1"; }
_iowarden_complete_silences() { compgen -W "$(_iowarden_label silence)" -- "$1"; }
_iowarden_complete_alerts() { compgen -W 'ALERTS' -- "$1"; }
_iowarden_complete_explained() { _iowarden_complete_alerts "$1"; compgen -f -- "$1"; }
_iowarden_complete_matchers() {
  # readline stops at '=': what follows is completed by the name before it.
  local name=${COMP_WORDS[COMP_CWORD - 1]} text=$1
  [[ $name == = ]] && name=${COMP_WORDS[COMP_CWORD - 2]}
  [[ $text == = ]] && text=
  case $name in
    device|disk) compgen -W "$(_iowarden_disks)" -- "$text" ;;
    severity) compgen -W 'SEVERITIES' -- "$text" ;;
    alertname) compgen -W 'ALERTS' -- "$text" ;;
    condition) compgen -W 'CONDITIONS' -- "$text" ;;
    *) compgen -S = -W 'LABELS' -- "$text" ;;
  esac
}
"""
_ZSH = """\
_iowarden_complete_disks() { compadd -- ${(f)"$(_iowarden_disks)"} }
_iowarden_complete_alerts() { compadd -- ALERTS }
_iowarden_complete_explained() { compadd -- ALERTS; _files }
_iowarden_complete_matchers() { compadd -S = -- LABELS }
"""
_FUNCTIONS = {"bash": _SHELL_DISKS + _BASH, "zsh": _SHELL_DISKS + _ZSH}
_FISH = {
    "disks": "(string replace -r '.*/' '' /sys/block/*)",
    "alerts": "ALERTS",
    "explained": "ALERTS (__fish_complete_path (commandline -ct))",
    "matchers": "(string split ' ' 'LABELS')=",
}
_BY_METAVAR = {
    "DISK": "disks",
    "DEVICE": "disks",
    "SERIAL": "disks",
    "INCIDENT": "incidents",
    "SILENCE": "silences",
    "ALERT": "alerts",
    "ALERT|FILE": "explained",
    "MATCHER": "matchers",
}
"""What is completed by a function of the shell."""
_OF_SERVICE = frozenset(("incidents", "silences"))
"""What is read from the service: in bash alone."""


def _filled(text: str) -> str:
    """Return shell code with the names that are the same on each host."""
    settings = parse_config("", "iowarden.yaml")
    groups = load_shipped(settings)
    alerts = {rule.alert for group in groups for rule in group.rules if isinstance(rule, Rule)}
    host, port = settings.listen[0]
    for word, names in (
        ("ADDRESS", (f"{host}/{port}",)),
        ("ALERTS", sorted(alerts)),
        ("CONDITIONS", sorted(Condition)),
        ("LABELS", _LABELS),
        ("SEVERITIES", [severity.name.lower() for severity in Severity]),
    ):
        text = text.replace(word, " ".join(names))
    return text


def _of_metavar(metavar: str) -> dict[str, str] | None:
    """Return what completes an argument in each shell; None: nothing does."""
    kind = _BY_METAVAR.get(metavar)
    if kind is None:
        return None
    functions = {"bash": f"_iowarden_complete_{kind}"}
    if kind not in _OF_SERVICE:
        functions["zsh"] = f"_iowarden_complete_{kind}"
        functions["fish"] = _filled(_FISH[kind])
    return functions


def texts() -> dict[str, str]:
    """Return the completion of each shell by file name."""
    found = {}
    for shell, name in FILES.items():
        parser = full_parser()
        _mark(parser)
        functions = _filled(_FUNCTIONS.get(shell, ""))
        found[name] = shtab.complete(parser, shell=shell, preamble=functions).rstrip() + "\n"
    return found


def _mark(parser: argparse.ArgumentParser) -> None:
    """Set which arguments are paths, and which are names of this host or of iowarden."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for command in action.choices.values():
                _mark(command)
            continue
        metavar = str(action.metavar or action.dest.upper())
        kind = _KINDS.get(metavar) or _of_metavar(metavar)
        if kind is not None:
            action.complete = kind  # type: ignore[attr-defined]  # where shtab looks
