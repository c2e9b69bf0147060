"""Database drivers that only the tests want, and what runs them: psycopg, node-pg, JDBC.

Rule: node and java are taken where they are installed; node comes from PyPI otherwise, java and the JDBC
driver from Debian. node-pg and what it needs are those of tests/drivers/package-lock.json, by their hashes.
"""

import glob
import json
import os
import re
import shutil
import subprocess

from fetch import alone, from_debian, unpacked
from place import ROOT, Missing, home, say

# What they are given in tests/drivers wants these: Unix sockets in Java, and the language in node.
OLDEST_JAVA, OLDEST_NODE = 16, 16


def _said(*command):
    """What a program says; nothing where it does not run."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def _java(root):
    """A java of the system or of an unpacked package that is new enough and can compile."""
    for path in [shutil.which("java")] if not root else glob.glob(f"{root}/usr/lib/jvm/*/bin/java"):
        compiler = re.search(r"^jdk\.compiler@(\d+)", _said(path, "--list-modules") if path else "", re.MULTILINE)
        if compiler and int(compiler.group(1)) >= OLDEST_JAVA:
            return path
    return None


def _jdbc(root):
    path = f"{root}/usr/share/java/postgresql.jar"
    return path if os.path.exists(path) else None


def _node(package, inside):
    """node and the command that runs npm."""
    version = re.match(r"v(\d+)", _said("node", "--version"))
    if version and int(version.group(1)) >= OLDEST_NODE and _said("npm", "--version"):
        return shutil.which("node"), ["npm"]
    path = os.path.join(unpacked("node", "wheel", package, "node"), inside)
    prefix = os.path.dirname(os.path.dirname(path))
    return path, [path, os.path.join(prefix, "lib/node_modules/npm/bin/npm-cli.js")]


def _node_modules(npm, package):
    """The folder of node-pg and what it needs."""
    source, folder = os.path.join(ROOT, "tests", "drivers"), os.path.join(home(), "servers", "node-pg")
    with open(os.path.join(source, "package-lock.json"), encoding="utf-8") as file:
        lock = file.read()
    name, version = package.split("==")
    if json.loads(lock)["packages"][f"node_modules/{name}"]["version"] != version:
        raise Missing(f"pgrx-config/versions says {package}, tests/drivers/package-lock.json says something else")
    modules = os.path.join(folder, "node_modules")
    with alone("node-pg"):
        stamp = os.path.join(folder, "package-lock.json")
        if os.path.isdir(modules) and os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == lock:
            return modules
        say(f"getting the database driver {package} from npm")
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(source, file), part)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
        done = subprocess.run([*npm, "ci", *options], cwd=part, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Missing(f"the npm package {package} could not be had: {done.stdout.strip().splitlines()[:1]}")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(part, folder)
    return modules


def drivers(versions):
    """For each variable of the tests what gets its thing; `versions` is the list of pgrx-config/versions."""
    node, node_pg = versions["node"][1:], versions["node-pg"][1]
    return {
        "PG_ONCE_PSYCOPG": lambda: unpacked("psycopg", *versions["psycopg"][:2], "the database driver"),
        "PG_ONCE_NODE": lambda: _node(*node)[0],
        "PG_ONCE_NODE_MODULES": lambda: _node_modules(_node(*node)[1], node_pg),
        "PG_ONCE_JAVA": lambda: from_debian("java", versions["java"][1], _java),
        "PG_ONCE_JDBC": lambda: from_debian("jdbc", versions["jdbc"][1], _jdbc),
    }
