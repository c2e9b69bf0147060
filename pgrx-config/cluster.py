#!/usr/bin/env python3
"""A private PostgreSQL cluster: made, started, stopped; by the demo, the benchmark and by hand.

    cluster.py start NAME MAJOR [SETTING=VALUE ...]   prints the folder of its Unix socket
    cluster.py stop NAME

Rule: it listens on a Unix socket in a folder that only its account may enter, and nowhere else; it
lives in target/NAME and is as durable as PostgreSQL is out of the box.
"""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from place import ROOT, Missing, account, as_account, home, main, say

# A Unix socket's path has room for 107 bytes, and PostgreSQL adds its file's name to the folder.
LONGEST_SOCKET_FOLDER = 90


class Cluster:
    """One cluster by name; making the object touches nothing. `environment` is added to its server's."""

    def __init__(self, name, environment=None):
        self.name = name
        self._environment = [f"{key}={value}" for key, value in (environment or {}).items()]
        self.folder = os.path.join(home(), name)
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.data, "server.log")

    def _made_with(self):
        """What it was last started with; outlives this process, so that stop works later."""
        try:
            with open(os.path.join(self.folder, "made-with.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {"bin": None, "socket": None, "settings": None}

    @property
    def socket(self):
        """The folder of the Unix socket: what to give as host."""
        return self._made_with()["socket"]

    def _run(self, program, *arguments):
        """Runs a program of the server as its account, with no PG* setting of the caller's."""
        # RUST_BACKTRACE would add a backtrace to the detail of the server's errors.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PG") and k != "RUST_BACKTRACE"}
        command = [os.path.join(self._made_with()["bin"], program), *arguments]
        if program == "pg_ctl" and self._environment:
            # By env, behind the change of account: what is preloaded there must not run as root first.
            command = ["env", *self._environment, *command]
        done = subprocess.run(as_account(command, self._owner()), env=clean, cwd="/", text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            said = done.stdout.strip().splitlines()[-3:]
            if program == "pg_ctl" and os.path.exists(self.log):
                with open(self.log, encoding="utf-8", errors="replace") as file:
                    said = [line.split("] ")[-1].strip() for line in file if "FATAL" in line][-1:] or said
            raise Missing(f"{program} failed for {self.folder}: {' / '.join(said)}")

    def _owner(self):
        """Who it runs as: whoever made it, even if another account would be chosen today; None for ourselves."""
        if account() is None or not os.path.exists(self.data):
            return account()
        return pwd.getpwuid(os.stat(self.data).st_uid)

    def _own(self, folder):
        """A folder for that account alone."""
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o700)
        who = self._owner()
        if who:
            os.chown(folder, who.pw_uid, who.pw_gid)
        return folder

    def _at_home(self, pid):
        """Whether the process works in the data folder: a process id of old may be somebody else's today."""
        try:
            return os.path.samefile(f"/proc/{pid}/cwd", self.data)
        except OSError:
            return False

    def _postmaster(self):
        """The process id of its server, None when it is down; needs no program of the server."""
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8") as file:
                pid = int(file.readline())
        except (OSError, ValueError):
            return None
        return pid if self._at_home(pid) else None

    def start(self, pg_config, **settings):
        """Starts it with these settings, making it first where need be; returns the socket's folder."""
        def ask(option):
            return subprocess.run([pg_config, option], stdout=subprocess.PIPE, text=True).stdout.strip()

        version = ask("--version").split()[1]
        wanted = {"bin": ask("--bindir"), "socket": self._socket_folder(),
                  "settings": {"listen_addresses": "", **settings}}
        if self._postmaster():
            if self._made_with() == wanted:
                return self.socket
            self.stop()
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "made-with.json"), "w", encoding="utf-8") as file:
            json.dump(wanted, file)
        self._make(version)
        # No server of ours is up: what lies here was left by a crash or a move.
        shutil.rmtree(self.socket, ignore_errors=True)
        self._own(self.socket)
        lines = {"unix_socket_directories": self.socket, **wanted["settings"]}
        with open(os.path.join(self.data, "postgresql.auto.conf"), "w", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in lines.items())
        who = f" as {self._owner().pw_name}" if self._owner() else ""
        say(f"starting a private PostgreSQL {version}{who}: Unix socket only, in {self.folder}")
        self._run("pg_ctl", "start", "-w", "-D", self.data, "-l", self.log)
        return self.socket

    def _make(self, version):
        """Fills the data folder, unless it is there; one of another major is replaced."""
        made_by = os.path.join(self.data, "PG_VERSION")
        if os.path.exists(made_by):
            with open(made_by, encoding="utf-8") as file:
                if file.read().strip() == version.split(".")[0]:
                    return
            say(f"the cluster in {self.folder} is another major's and is made anew")
        shutil.rmtree(self.data, ignore_errors=True)
        part = self.data + ".part"
        shutil.rmtree(part, ignore_errors=True)
        self._run("initdb", "-D", self._own(part), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
        os.rename(part, self.data)

    def _socket_folder(self):
        folder = os.path.join(self.folder, "socket")
        if len(os.fsencode(folder)) <= LONGEST_SOCKET_FOLDER:
            return folder
        folder = self.socket
        return folder if folder and os.path.isdir(folder) else tempfile.mkdtemp(prefix="pg_once-", dir="/tmp")

    def stop(self):
        """Stops it; its data stays. False when it was not running."""
        pid = self._postmaster()
        if pid is None:
            return False
        os.kill(pid, signal.SIGINT)
        patience = time.monotonic() + 60
        while self._at_home(pid):
            if time.monotonic() > patience:
                raise Missing(f"the server in {self.folder} (process {pid}) does not stop")
            time.sleep(0.05)
        if not self.socket.startswith(self.folder):
            shutil.rmtree(self.socket, ignore_errors=True)
        return True

    def psql(self, database):
        """The command that a person types to look into it."""
        path = os.path.join(self._made_with()["bin"], "psql")
        shown = os.path.relpath(path, os.getcwd())
        return f"{shown if not shown.startswith('..') else path} -h {self.socket} -U postgres {database}"


def run():
    """The command line."""
    what, name = (sys.argv[1:] + ["", ""])[:2]
    if what == "start" and len(sys.argv) > 3:
        pg_config = subprocess.run([os.path.join(ROOT, "pgrx-config", "servers"), "pg_config", sys.argv[3]],
                                   stdout=subprocess.PIPE, text=True)
        if pg_config.returncode != 0:
            sys.exit(pg_config.returncode)
        settings = dict(argument.split("=", 1) for argument in sys.argv[4:])
        print(Cluster(name).start(pg_config.stdout.strip(), **settings))
    elif what == "stop" and name:
        stopped = Cluster(name).stop()
        say(f"stopped {Cluster(name).folder}" if stopped else f"no {name} cluster is running")
    else:
        print(__doc__)
        sys.exit(2)


if __name__ == "__main__":
    main(run)
