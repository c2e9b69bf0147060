"""Database drivers that only the tests want, and what runs them: psycopg, node-pg, JDBC; web frameworks of the examples.

Rule: java is taken where it is installed and new enough; it and its driver come from Debian otherwise.
"""

import glob
import os
import re
import shutil

from fetch import from_debian, locked, said, unpacked
from npm import modules, node

# Unix sockets, which the program in tests/drivers wants.
OLDEST_JAVA = 16


def _java(root):
    """A java of the system or of an unpacked package that is new enough and can compile."""
    for path in [shutil.which("java")] if not root else glob.glob(f"{root}/usr/lib/jvm/*/bin/java"):
        compiler = re.search(r"^jdk\.compiler@(\d+)", said(path, "--list-modules") if path else "", re.MULTILINE)
        if compiler and int(compiler.group(1)) >= OLDEST_JAVA:
            return path
    return None


def _jdbc(root):
    path = f"{root}/usr/share/java/postgresql.jar"
    return path if os.path.exists(path) else None


def drivers(versions):
    """For each variable of the tests what gets its thing; `versions` is the list of pgrx-config/versions."""
    return {
        "PG_ONCE_PSYCOPG": lambda: unpacked("psycopg", *versions["psycopg"][:2], "the database driver"),
        "PG_ONCE_NODE": lambda: node(*versions["node"][1:])[0],
        "PG_ONCE_NODE_MODULES": lambda: modules("node-pg", "tests/drivers", versions["node-pg"][1], versions),
        "PG_ONCE_HTTP_PYTHON": lambda: locked("http-python", *versions["http-python"][1:]),
        "PG_ONCE_HTTP_NODE": lambda: modules("http-node", versions["http-node"][2], versions["http-node"][1], versions),
        "PG_ONCE_JAVA": lambda: from_debian("java", versions["java"][1], _java),
        "PG_ONCE_JDBC": lambda: from_debian("jdbc", versions["jdbc"][1], _jdbc),
    }
