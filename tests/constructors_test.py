#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every op of the registry has a C++ constructor, or thalweg/ops/constructors.txt says why not."""

import fnmatch
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.path.join(os.environ.get("THALWEG_BIN", ROOT / "build/release/bin"), "thalweg")
FUNCTION = re.compile(r"\b([A-Z]\w+)\(\s*const Scope")
MEMBER = re.compile(r"^  (?:static )?Dataset(?:Iterator)? ([A-Z]\w+)\(", re.MULTILINE)


def plain(name):
    """The name of an op or function without the marks of its form."""
    name = re.sub(r"^(Resource|Thalweg)", "", name)
    return re.sub(r"([Vv]\d)?(Op)?([Vv]\d)?$", "", name).lower()


def read_list(text):
    """({op: function}, [(pattern, reason)]) of constructors.txt."""
    other_names, without, section = {}, [], ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line
        elif line and not line.startswith("#"):
            if "other names" in section:
                op, function = line.split(" = ")
                other_names[op] = function
            else:
                pattern, reason = line.split("  ", 1)
                without.append((pattern, reason))
    return other_names, without


def public_functions():
    """The names of all constructors of the public headers; members as Dataset::Name."""
    headers = re.findall(r"^thalweg/(?:ops|graph)/\S+", (ROOT / "thalweg/public_headers.txt").read_text(), re.MULTILINE)
    text = "\n".join(re.sub(r"//.*", "", (ROOT / header).read_text()) for header in headers)
    return set(FUNCTION.findall(text)) | {"Dataset::" + member for member in MEMBER.findall(text)}


def check(ops, functions, other_names, without):
    """What is wrong with the list."""
    known = {plain(function) for function in functions}
    problems, used = [], set()
    for op in ops:
        if plain(op) in known:
            continue
        if op in other_names:
            if other_names[op] not in functions:
                problems.append(f"{op}: there is no function {other_names[op]}")
            continue
        matching = [pattern for pattern, _ in without if fnmatch.fnmatchcase(op, pattern)]
        used.update(matching)
        if not matching:
            problems.append(f"{op}: has no constructor, and constructors.txt does not say why")
    problems += [f"{op} = {function}: the registry has no such op, or its own name is a function's"
                 for op, function in other_names.items() if op not in ops or plain(op) in known]
    problems += [f"{pattern}: stands for no op that has no constructor" for pattern, _ in without if pattern not in used]
    return problems


class ConstructorsTest(unittest.TestCase):
    maxDiff = None

    def test_every_op_has_a_constructor_or_a_reason(self):
        registry = subprocess.run([PROGRAM, "ops"], capture_output=True, text=True, timeout=60, check=True).stdout
        ops = re.findall(r'^op \{\n  name: "(\w+)"', registry, re.MULTILINE)
        self.assertGreater(len(ops), 1000)
        other_names, without = read_list((ROOT / "thalweg/ops/constructors.txt").read_text())
        self.assertEqual(check(ops, public_functions(), other_names, without), [])

    def test_finds_what_is_wrong(self):
        functions = {"MatMul", "ReduceSum"}
        self.assertEqual(check(["MatMul", "BatchMatMulV2"], functions, {}, []),
                         ["BatchMatMulV2: has no constructor, and constructors.txt does not say why"])
        self.assertEqual(check(["Sum"], functions, {"Sum": "ReduceSum"}, []), [])
        self.assertEqual(check(["Sum"], functions, {"Sum": "AddUp"}, []), ["Sum: there is no function AddUp"])
        self.assertEqual(check(["_Send"], functions, {}, [("_*", "internal"), ("X*", "none")]),
                         ["X*: stands for no op that has no constructor"])


if __name__ == "__main__":
    unittest.main()
