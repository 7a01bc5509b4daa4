#!/usr/bin/env python3
"""Reads names of changed files, prints the packages of the workspace that they belong to.

A file outside every package's folder that decides how all are built stands for all of them. With a package goes
the one that has its tests, if they are apart.
"""

import json
import os
import subprocess
import sys

FOR_ALL = {"Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".clippy.toml", "scripts/lib/cmake_headers.sh"}


def main():
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    root = metadata["workspace_root"]
    folders = {
        os.path.relpath(os.path.dirname(package["manifest_path"]), root) + "/": package["name"]
        for package in metadata["packages"]
    }
    changed = sys.stdin.read().split("\n")
    if FOR_ALL.intersection(changed):
        names = set(folders.values())
    else:
        names = {
            name for folder, name in folders.items() if any(file.startswith(folder) for file in changed)
        }
    names |= {f"{name}-tests" for name in names} & set(folders.values())
    for name in sorted(names):
        print(name)


if __name__ == "__main__":
    main()
