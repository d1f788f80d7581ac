"""A chat in the terminal, over the gateway's own HTTP API."""

from __future__ import annotations

import os
import re
import secrets
import sys
from contextlib import closing
from dataclasses import dataclass

from gateway.cli.client import CommandFailed, connect, say
from gateway.cli.partners import AgentPartner, ModelPartner, Partner
from gateway.cli.prompt import ReadLine, history_file, open_prompt
from gateway.cli.screen import Note, Screen

HELP = """\
/help          this list
/model         who answers, and which models there are
/model NAME    ask another model from now on
/quit          leave, as Ctrl-D does
Ctrl-C leaves an answer. A line that begins with a space is sent as it is, also with a slash.\
"""
_read_command = re.compile(r"(/[a-z]+)(?:\s+(.*))?\s*", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Who is talked to, where, and whether typed lines are kept for the next time."""

    session: str = ""
    model: str = ""
    agent: str = ""
    keeps_history: bool = True


class _Quit(Exception):
    """The person has said so."""


def chat(url: str, key: str, options: ChatOptions) -> None:
    """Talk until the input ends; Ctrl-C leaves an answer, or the chat. Raises `CommandFailed`."""
    # An agent has a conversation to go on with; who asks a model begins a new one.
    session = options.session or options.agent or f"chat-{secrets.token_hex(4)}"
    with connect(url, key, {}, None) as client:
        partner: Partner = (
            AgentPartner(client, session, options.agent)
            if options.agent
            else ModelPartner(client, session, options.model)
        )
        say(f"{partner.name} at {url}, session {session}; /help lists the commands.")
        with open_prompt(history_file(os.environ) if options.keeps_history else None) as read_line:
            _talk(partner, read_line)


def _talk(partner: Partner, read_line: ReadLine) -> None:
    while True:
        try:
            line = read_line()
        except KeyboardInterrupt:
            line = ""
        if not line:
            print()
            return
        try:
            _handle_line(partner, line.removesuffix("\n"))
        except _Quit:
            return


def _handle_line(partner: Partner, line: str) -> None:
    if command := _read_command(line):
        try:
            _run_command(partner, command[1], (command[2] or "").strip())
        except CommandFailed as failed:
            say(f"holdgate: {failed}")
    elif line.strip():
        _show_turn(partner, line)


def _run_command(partner: Partner, name: str, rest: str) -> None:
    if name == "/help":
        say(HELP)
    elif name == "/model":
        _show_or_choose_model(partner, rest)
    elif name == "/quit":
        raise _Quit
    else:
        raise CommandFailed(f"there is no command {name}; /help lists the commands.")


def _show_or_choose_model(partner: Partner, name: str) -> None:
    if not isinstance(partner, ModelPartner):
        raise CommandFailed(f"the model of the agent {partner.name} is set in the configuration.")
    if name:
        partner.choose(name)
        say(f"{name} answers from now on.")
    else:
        say(f"{partner.name} answers; there are {', '.join(partner.models())}.")


def _show_turn(partner: Partner, text: str) -> None:
    """Ask and show; what was not answered is not part of the conversation."""
    screen = Screen(sys.stdout)
    try:
        said = _show(partner, text, screen)
    except CommandFailed as failed:
        screen.end()
        say(f"holdgate: {failed}")
        said = ""
    if said:
        partner.remember(text, said)


def _show(partner: Partner, text: str, screen: Screen) -> str:
    said = ""
    try:
        with closing(partner.answer(text)) as heard:
            for what in heard:
                if isinstance(what, Note):
                    screen.note(what)
                else:
                    said += what
                    screen.say(what)
    except KeyboardInterrupt:
        screen.leave()
    screen.end()
    return said
