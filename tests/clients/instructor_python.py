"""instructor, in an environment of its own: it wants an older openai than the other clients."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from .node import NotReady

DIRECTORY = Path(__file__).parent / "instructor"
LOCK_FILE = DIRECTORY / "requirements.lock"
ENVIRONMENT = DIRECTORY / ".venv"
STAMP = ENVIRONMENT / ".installed"
PYTHON = ENVIRONMENT / "bin" / "python"
LIMIT = 300.0
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")

# Asks for one object, and prints it.
SCRIPT = """
import sys
import instructor, openai
from pydantic import BaseModel

class Drink(BaseModel):
    name: str
    cups: int

url, mode = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", default_headers={"x-session-id": "s"})
asks = instructor.from_openai(client, mode=instructor.Mode[mode])
said = [{"role": "user", "content": "What is brewed?"}]
found = asks.chat.completions.create(
    model="m", messages=said, response_model=Drink, max_retries=0
)
print(found.model_dump_json())
client.close()
"""


def provide() -> None:
    """Install what the lock file names, unless that is what is installed."""
    with LOCK_FILE.open("rb") as lock:
        # Test processes that run side by side wait here for the first one.
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = hashlib.sha256(lock.read()).hexdigest()
        if STAMP.exists() and STAMP.read_text() == wanted:
            return
        for words in (
            (sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)),
            (str(PYTHON), *PIP, "-r", str(LOCK_FILE)),
        ):
            done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
            if done.returncode != 0:
                raise NotReady(f"instructor cannot be installed:\n{done.stderr.strip()}")
        STAMP.write_text(wanted)


def command(url: str, mode: str) -> tuple[str, ...]:
    """Return what asks for one object at a gateway, in one of instructor's modes."""
    return (str(PYTHON), "-c", SCRIPT, url, mode)


def environment() -> dict[str, str]:
    """Return the environment of the script: loopback and nothing else."""
    return {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1"}
