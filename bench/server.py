"""The benchmark's own cluster: made anew for every run, gone afterwards.

Rule: it is set up by works.SETTINGS and nothing else, and nothing but the benchmark runs on it.
"""

import os
import shutil
import subprocess

from cluster import Cluster
from place import ROOT, Missing, home, say
from works import DEFAULTS_SHOWN, SETTINGS

SPACE = 8 * 2**30


class Server:
    """A fresh cluster, from `with` to its end."""

    def __init__(self, pg_config):
        self._pg_config = pg_config
        self._cluster = Cluster("bench")
        found = subprocess.run([pg_config, "--bindir"], stdout=subprocess.PIPE, text=True, check=True)
        self._psql = os.path.join(found.stdout.strip(), "psql")

    def __enter__(self):
        self._remove()
        if shutil.disk_usage(home()).free < SPACE:
            raise Missing(f"the benchmark needs {SPACE // 2**30} GB free in {home()}")
        self._cluster.start(self._pg_config, **SETTINGS)
        return self

    def __exit__(self, *_):
        self._remove()

    def _remove(self):
        self._cluster.stop()
        shutil.rmtree(self._cluster.data, ignore_errors=True)

    def run(self, script):
        """Runs a script in one session; returns the lines of its answers."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        command = [self._psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self._cluster.socket, "-U", "postgres"]
        done = subprocess.run(command, input=script, env=clean, cwd="/", text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise Missing("the benchmark's SQL failed: " + " / ".join(done.stderr.strip().splitlines()[-4:]))
        return [line for line in done.stdout.splitlines() if line]

    def run_file(self, name, **values):
        """Runs a file of bench/, with a value in the place of each :name."""
        with open(os.path.join(ROOT, "bench", name), encoding="utf-8") as file:
            script = file.read()
        for variable, value in values.items():
            script = script.replace(":" + variable, value)
        return self.run(script)

    def settings(self):
        """What it runs with, set by us or not."""
        names = ", ".join(f"'{name}'" for name in (*SETTINGS, *DEFAULTS_SHOWN))
        shown = self.run(f"LOAD 'pg_once'; SELECT name || '=' || current_setting(name) FROM pg_settings WHERE name IN ({names})")
        return dict(sorted(line.split("=", 1) for line in shown))

    def version(self):
        """The server's version."""
        return self.run("SHOW server_version")[0]

    def make_wal(self, segments):
        """Makes WAL segments beforehand: a young cluster would create them inside the timed parts."""
        say(f"making {segments} WAL segments")
        self.run(f"""
            DO $$ BEGIN
                FOR i IN 1..{segments} LOOP
                    PERFORM pg_logical_emit_message(false, 'bench', 'next'), pg_switch_wal();
                END LOOP;
            END $$;
            CHECKPOINT;""")
