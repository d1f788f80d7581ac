"""Builds the image and runs it: with Docker where there is one, else step by step in a chroot.

The second way does what Docker would, as far as our Dockerfile needs it. Each stage has a root of its
own, in which the programs of this machine are seen read-only, and Python is the one that runs the
tests. Mounts are made in a namespace of their own and go with the process. The packages come from a
directory instead of an index. The gateway runs as the user of the image, without any capability, and
may write into the volume only, not even into /tmp.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from tests.run import GatewayProcess

from .conftest import ROOT, run, use_packages
from .dockerfile import Instruction, Stage, list_context

HOST_DIRECTORIES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr")
HOST_FILES = ("etc/ld.so.cache", "etc/ld.so.conf", "etc/hosts", "etc/nsswitch.conf")
# Beside what a base image has: a name for Python, and the packages.
MOUNTED = ("python", "packages")
BASE_ENVIRONMENT = {"PATH": "/python:/usr/sbin:/usr/bin:/sbin:/bin"}
PATIENCE = 60


class Container(Protocol):
    """A gateway that runs in a container."""

    @property
    def url(self) -> str:
        """Where it listens, seen from here."""

    def check_health(self) -> int:
        """Run the health check inside; return its status."""

    def read_proc(self, name: str) -> str:
        """Read what the kernel says of the gateway's process."""

    def terminate(self) -> None:
        """Ask it to leave, as `docker stop` does."""

    def wait(self) -> int:
        """Wait until it has left; return its status."""


@cache
def has_docker() -> bool:
    """Whether there is a Docker engine that answers."""
    if not shutil.which("docker"):
        return False
    with suppress(subprocess.TimeoutExpired):
        return subprocess.run(("docker", "info"), capture_output=True, timeout=20).returncode == 0
    return False


@cache
def has_chroot() -> bool:
    """Whether this process may change its root and mount in a namespace of its own."""
    test = ("unshare", "--mount", "mount", "--bind", "/usr", "/mnt")
    with suppress(FileNotFoundError):
        return os.geteuid() == 0 and subprocess.run(test, capture_output=True).returncode == 0
    return False


def build_with_docker() -> str:
    """Build the image, of which all steps may be known; return its name."""
    return run("docker", "build", "--quiet", ROOT).strip()


@contextmanager
def run_with_docker(stage: Stage, settings: Mapping[str, str]) -> Iterator[Container]:
    """Build the image and run a container, with all taken away that compose.yaml takes away."""
    image = build_with_docker()
    rights = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges:true")
    options = [f"--env={name}={value}" for name, value in settings.items()]
    start = ("docker", "run", "--detach", "--publish=127.0.0.1::8787", *rights, *options, image)
    container = DockerContainer(run(*start).strip(), stage)
    try:
        end = time.monotonic() + PATIENCE
        while container.check_health() and time.monotonic() < end:
            time.sleep(0.2)
        yield container
    finally:
        run("docker", "rm", "--force", "--volumes", container.number)


@dataclass(frozen=True, slots=True)
class DockerContainer:
    """A container of the Docker engine."""

    number: str
    stage: Stage

    @property
    def url(self) -> str:
        return f"http://{run('docker', 'port', self.number, '8787/tcp').split()[0]}"

    def check_health(self) -> int:
        command = self.stage.only("HEALTHCHECK").exec_form
        return subprocess.run(("docker", "exec", self.number, *command)).returncode

    def read_proc(self, name: str) -> str:
        return run("docker", "exec", self.number, "cat", f"/proc/1/{name}")

    def terminate(self) -> None:
        run("docker", "kill", "--signal=TERM", self.number)

    def wait(self) -> int:
        return int(run("docker", "wait", self.number))


class ChrootBuilder:
    """Performs the steps of stages, one after the other, each stage in a root of its own."""

    def __init__(self, place: Path, packages: Path) -> None:
        self._place = place
        self._packages = packages

    def build(self, stages: Sequence[Stage]) -> Path:
        """Perform all steps; return the root of the last stage."""
        root = self._place
        for number, stage in enumerate(stages):
            root = self._place / (stage.name or f"stage{number}")
            self._make_root(root)
            self._perform(stage, root)
        return root

    def _make_root(self, root: Path) -> None:
        """Make what every base image has: programs, a Python, /tmp."""
        for name in ("proc", "dev", "tmp", "etc", "opt", "var/lib", *MOUNTED):
            root.joinpath(name).mkdir(parents=True)
        for name in HOST_DIRECTORIES:
            there = Path("/", name)
            if there.is_symlink():
                root.joinpath(name).symlink_to(there.readlink())
            elif there.exists():
                root.joinpath(name).mkdir()
        for name in HOST_FILES:
            if Path("/", name).exists():
                shutil.copy(Path("/", name), root / name)
        base = Path(sys.base_prefix)
        root.joinpath(*base.parts[1:]).mkdir(parents=True, exist_ok=True)
        root.joinpath("python/python").symlink_to(base / "bin" / "python3")

    def _perform(self, stage: Stage, root: Path) -> None:
        directory, environ = Path("/"), dict[str, str]()
        for step in stage.steps:
            if step.name == "WORKDIR":
                directory = Path(step.value)
                inside(root, directory).mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY":
                self._copy(step, root, directory)
            elif step.name == "RUN":
                self._run(step, root, directory, environ)
            elif step.name == "ENV":
                environ |= step.settings

    def _copy(self, step: Instruction, root: Path, directory: Path) -> None:
        options = [word for word in step.words if word.startswith("--")]
        *names, target = [word for word in step.words if not word.startswith("--")]
        into = inside(root, directory / target)
        for name in names:
            if options:
                (stage,) = (option.removeprefix("--from=") for option in options)
                source = inside(self._place / stage, Path(name))
            else:
                source = ROOT / name
                assert source in list_context(), f"{name} is not sent to the builder"
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            else:
                shutil.copy(source, into)

    def _run(
        self, step: Instruction, root: Path, directory: Path, environ: Mapping[str, str]
    ) -> None:
        packages = use_packages(Path("/packages"))
        script = write_entry(root, {"packages": self._packages})
        command = f"{script}\nexec /usr/sbin/chroot . sh -c {shlex.quote(f'cd {directory} && {step.value}')}"
        result = subprocess.run(
            ("unshare", "--mount", "sh", "-euc", command),
            env={**BASE_ENVIRONMENT, **packages, **environ},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, f"{step.value}\n{result.stdout}{result.stderr}"


def inside(root: Path, path: Path) -> Path:
    """Return where a path of a container is on this machine."""
    return root.joinpath(*path.parts[1:]) if path.is_absolute() else root / path


def write_entry(root: Path, directories: Mapping[str, Path], is_read_only: bool = False) -> str:
    """Write shell commands that mount all a root needs, and go there."""
    shown = [name for name in HOST_DIRECTORIES if not Path("/", name).is_symlink()]
    seen = {name: Path("/", name) for name in shown if Path("/", name).exists()}
    base = Path(sys.base_prefix)
    seen[str(base).lstrip("/")] = base
    # The root is mounted on itself, so that it can be made read-only alone.
    lines = [f"cd {shlex.quote(str(root))}", "mount --bind . .", 'cd "$PWD"']
    for name, path in seen.items():
        lines.append(f"mount --bind {shlex.quote(str(path))} ./{name}")
        lines.append(f"mount -o remount,bind,ro ./{name}")
    lines += ["mount -t proc proc ./proc", "mount --rbind /dev ./dev"]
    if is_read_only:
        lines.append("mount -o remount,bind,ro .")
    lines += [f"mount --bind {shlex.quote(str(p))} ./{name}" for name, p in directories.items()]
    return "\n".join(lines)


@contextmanager
def run_in_chroot(
    root: Path, stage: Stage, home: Path, settings: Mapping[str, str]
) -> Iterator[Container]:
    """Run what the image starts, as its user, with a read-only root and one volume."""
    (volume,) = stage.only("VOLUME").exec_form
    state = home / "volume"
    # A new volume begins as what the image has there.
    shutil.copytree(inside(root, Path(volume)), state)
    owner = inside(root, Path(volume)).stat()
    os.chown(state, owner.st_uid, owner.st_gid)
    state.chmod(owner.st_mode & 0o777)
    container = ChrootContainer(root, stage, {volume.lstrip("/"): state})
    words = [*stage.only("ENTRYPOINT").exec_form, *stage.only("CMD").exec_form]
    environ = {**stage.environment, "HOLDGATE_SERVER__PORT": "0", **settings}
    with GatewayProcess(container.enter(words), home, environ, 0) as process:
        container.process = process
        yield container


class ChrootContainer:
    """A gateway in a root of its own."""

    process: GatewayProcess

    def __init__(self, root: Path, stage: Stage, volumes: Mapping[str, Path]) -> None:
        self._root = root
        self._stage = stage
        self._volumes = volumes

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.process.port}"

    def check_health(self) -> int:
        command = self.enter(self._stage.only("HEALTHCHECK").exec_form)
        environ = {**self._stage.environment, "HOLDGATE_SERVER__PORT": str(self.process.port)}
        return subprocess.run(command, env=environ, timeout=PATIENCE).returncode

    def read_proc(self, name: str) -> str:
        return Path(f"/proc/{self.process.pid}/{name}").read_text()

    def terminate(self) -> None:
        self.process.signal(signal.SIGTERM)

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def enter(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs words inside, in place of itself."""
        user, group = self._stage.only("USER").value.split(":")
        directory = self._stage.find("WORKDIR")[-1].value
        rights = f"--reuid={user} --regid={group} --clear-groups --no-new-privs --bounding-set=-all"
        inner = f'cd {directory} && exec "$@"'
        script = write_entry(self._root, self._volumes, is_read_only=True)
        last = f"exec /usr/sbin/chroot . setpriv {rights} sh -c {shlex.quote(inner)} sh {shlex.join(words)}"
        return ["unshare", "--mount", "/bin/sh", "-euc", f"{script}\n{last}"]
