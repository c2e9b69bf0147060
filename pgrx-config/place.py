"""Where servers and clusters are kept, and as whom they run.

Rule: everything is under target/. PostgreSQL refuses to run as root, so when root works here the
servers run as an ordinary account; if that account cannot reach target/ (a checkout in /root, say),
a folder under /var/tmp takes its place, made by and for root, and target/place names it.
"""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.join(ROOT, "target")

# What is unpacked here must be readable for the account that runs the server.
os.umask(0o022)


class Missing(Exception):
    """Something that is needed and cannot be had; the text is the one line a person reads."""


class NotPackaged(Missing):
    """This release of the operating system has no such package at all."""


def say(line):
    """Progress is for people: standard error, so that answers can be read from standard output."""
    print(f"-- {line}", file=sys.stderr, flush=True)


def main(run):
    """Runs a script; what is missing becomes one line and an exit code (3: no such package here)."""
    try:
        run()
    except Missing as missing:
        print(f"pg_once: {missing}", file=sys.stderr)
        sys.exit(3 if isinstance(missing, NotPackaged) else 1)
    except OSError as error:
        print(f"pg_once: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def account():
    """The ordinary account that servers run as; None when we are one already."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise Missing("no account to run PostgreSQL as: root may not, and there is neither postgres nor nobody")


def as_account(command, who=None):
    """The command, run as the ordinary account, or as another one that is named."""
    who = who or account()
    if who is None:
        return list(command)
    return ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", "--", *command]


def _reaches(folder):
    return subprocess.run(as_account(["test", "-r", folder, "-a", "-x", folder]), cwd="/").returncode == 0


def home():
    """The folder that holds servers/ and the clusters."""
    os.makedirs(TARGET, exist_ok=True)
    if account() is None or _reaches(TARGET):
        return TARGET
    note = os.path.join(TARGET, "place")
    if os.path.exists(note):
        with open(note, encoding="utf-8") as file:
            kept = file.read().strip()
        if os.path.isdir(kept) and not os.path.islink(kept) and os.stat(kept).st_uid == 0:
            return kept
    made = tempfile.mkdtemp(prefix="pg_once-", dir="/var/tmp")
    os.chmod(made, stat.S_IRWXU | 0o055)
    with open(note, "w", encoding="utf-8") as file:
        file.write(made + "\n")
    say(f"{account().pw_name} cannot reach {TARGET}: servers and clusters are kept in {made}")
    return made


def forget():
    """Removes the folder that stands in for target/, if there is one."""
    note = os.path.join(TARGET, "place")
    if os.path.exists(note):
        shutil.rmtree(home(), ignore_errors=True)
        os.unlink(note)
