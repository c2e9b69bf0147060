"""npm packages, and the node that runs npm.

Rule: node is taken where it is installed and comes from PyPI otherwise. What a package needs is what its
package-lock.json says, by hashes; nothing that a package would run at installation is run.
"""

import json
import os
import re
import shutil
import subprocess

from fetch import alone, said, unpacked
from place import ROOT, Missing, home, say

# What the examples in examples/http are written for.
OLDEST_NODE = 20


def node(package, inside):
    """node and the command that runs npm."""
    version = re.match(r"v(\d+)", said("node", "--version"))
    if version and int(version.group(1)) >= OLDEST_NODE and said("npm", "--version"):
        return shutil.which("node"), ["npm"]
    path = os.path.join(unpacked("node", "wheel", package, "node"), inside)
    prefix = os.path.dirname(os.path.dirname(path))
    return path, [path, os.path.join(prefix, "lib/node_modules/npm/bin/npm-cli.js")]


def modules(name, source, package, versions):
    """The folder of packages (one, or more with commas) and what they need, as the lock file in a folder of the repository pins them."""
    source, folder = os.path.join(ROOT, source), os.path.join(home(), "servers", name)
    with open(os.path.join(source, "package-lock.json"), encoding="utf-8") as file:
        lock = file.read()
    for each in package.split(","):
        wanted, version = each.split("==")
        if json.loads(lock)["packages"][f"node_modules/{wanted}"]["version"] != version:
            raise Missing(f"pgrx-config/versions says {each}, and {source}/package-lock.json something else")
    _, npm = node(*versions["node"][1:])
    into = os.path.join(folder, "node_modules")
    with alone(name):
        stamp = os.path.join(folder, "package-lock.json")
        if os.path.isdir(into) and os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == lock:
            return into
        say(f"getting {package} from npm")
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(source, file), part)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
        done = subprocess.run([*npm, "ci", *options], cwd=part, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            why = (done.stdout.strip().splitlines() or ["npm failed"])[0]
            raise Missing(f"the npm package {package} could not be had: {why}")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(part, folder)
    return into
