"""The benchmark's own cluster: made anew for every run, gone afterwards.

Rule: it is set up by plan.SETTINGS and nothing else, and nothing but the benchmark runs on it.
"""

import os
import re
import shutil
import subprocess

from cluster import Cluster
from place import ROOT, Missing, home
from plan import DEFAULTS_SHOWN, SETTINGS, SHARED_BUFFERS_MOST, SHARED_BUFFERS_SHARE


def _memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Session:
    """One session that stays open, so that its process can be looked at."""

    def __init__(self, command, environment):
        self._psql = subprocess.Popen(command, env=environment, cwd="/", text=True, bufsize=1, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.pid = int(self.ask("SELECT pg_backend_pid()")[0])

    def ask(self, sql):
        """Runs statements; returns the lines of their answers."""
        self._psql.stdin.write(f"{sql}\n;\n\\echo --end\n")
        lines = []
        for line in self._psql.stdout:
            if line == "--end\n":
                return [line for line in lines if line]
            lines.append(line.rstrip("\n"))
        raise Missing("the benchmark's SQL failed: " + " / ".join(lines[-4:]))

    def private_bytes(self):
        """What the process has in memory that no other shares (RssAnon: its heap and stack, not shared_buffers)."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            return 1024 * next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))

    def close(self):
        """Ends it."""
        self._psql.stdin.close()
        self._psql.wait()
        self._psql.stdout.close()


class Server:
    """A fresh cluster, from `with` to its end."""

    def __init__(self, pg_config, space, name="bench"):
        self._pg_config, self._space = pg_config, space
        self._cluster = Cluster(name)
        found = subprocess.run([pg_config, "--bindir"], stdout=subprocess.PIPE, text=True, check=True)
        self._bin = found.stdout.strip()
        if not os.path.exists(os.path.join(self._bin, "pgbench")):
            raise Missing(f"there is no pgbench in {self._bin}: on Debian it is in the server's package, elsewhere in a contrib package")

    def __enter__(self):
        self._remove()
        if shutil.disk_usage(home()).free < self._space * 2**30:
            raise Missing(f"the benchmark needs {self._space} GB free in {home()}; QUICK=1 needs less")
        buffers = min(int(_memory() * SHARED_BUFFERS_SHARE), SHARED_BUFFERS_MOST) // 2**20
        self._cluster.start(self._pg_config, **SETTINGS, shared_buffers=f"{buffers}MB")
        return self

    def __exit__(self, *_):
        self._remove()

    def _remove(self):
        self._cluster.stop()
        shutil.rmtree(self._cluster.data, ignore_errors=True)

    @property
    def data(self):
        """Where the server may write files."""
        return self._cluster.data

    def _command(self, program, *options, database="postgres"):
        return [os.path.join(self._bin, program), *options, "-h", self._cluster.socket, "-U", "postgres", database]

    def _environment(self):
        return {k: v for k, v in os.environ.items() if not k.startswith("PG")}

    def _psql_command(self, database):
        return self._command("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", database=database)

    def run(self, script, database="postgres"):
        """Runs a script in one session; returns the lines of its answers."""
        done = subprocess.run(self._psql_command(database), input=script, env=self._environment(), cwd="/", text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise Missing("the benchmark's SQL failed: " + " / ".join(done.stderr.strip().splitlines()[-4:]))
        return [line for line in done.stdout.splitlines() if line]

    def run_file(self, name, database="postgres", **values):
        """Runs a file of bench/, with a value in the place of each :name."""
        with open(os.path.join(ROOT, "bench", name), encoding="utf-8") as file:
            script = file.read()
        for variable, value in values.items():
            script = re.sub(rf"(?<!:):{variable}\b", str(value), script)
        return self.run(script, database)

    def session(self, database="postgres"):
        """A session that stays open."""
        return Session(self._psql_command(database), self._environment())

    def pgbench(self, script, clients, seconds):
        """Transactions a second of a script, every client in a session of its own, statements prepared."""
        options = ("-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-T", str(seconds), "-f", script)
        done = subprocess.run(self._command("pgbench", *options), env=self._environment(), cwd="/", text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        found = re.search(r"tps = ([0-9.]+) \(without", done.stdout)
        failed = re.search(r"number of failed transactions: ([1-9]\d*)", done.stdout)
        if done.returncode != 0 or not found or failed:
            lines = done.stdout.strip().splitlines()
            raise Missing("pgbench failed: " + " / ".join([line for line in lines if "ERROR" in line or "error" in line][:2] or lines[-4:]))
        return float(found.group(1))

    def set(self, name, value):
        """Changes a setting of the whole server."""
        self.run(f"ALTER SYSTEM SET {name} = {value};\nSELECT pg_reload_conf();\nSELECT pg_sleep(0.3)")

    def settings(self):
        """What it runs with, set by us or not."""
        names = ", ".join(f"'{name}'" for name in (*SETTINGS, *DEFAULTS_SHOWN))
        shown = self.run(f"LOAD 'pg_once'; SELECT name || '=' || current_setting(name) FROM pg_settings WHERE name IN ({names})")
        return dict(sorted(line.split("=", 1) for line in shown))

    def version(self):
        """The server's version."""
        return self.run("SHOW server_version")[0]
