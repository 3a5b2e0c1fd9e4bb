#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The headers of thalweg/public_headers.txt are a closed set that brings nothing else into a user's program."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
MACRO = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
INTERNAL = re.compile(r" */// @cond INTERNAL\n.*?/// @endcond\n", re.DOTALL)
FORWARD = re.compile(r"^namespace tensorflow \{\n(?:class \w+;\n)+\}(?:  // namespace tensorflow)?\n", re.MULTILINE)
PRIVATE = re.compile(r"^ private:\n.*?^\};\n", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*")

# A program with macros of its own, before and after the API.
PROGRAM = """
#define LOG(x) mine_##x
#define CHECK 7
#include <thalweg/api.h>
#define VLOG(x) mine_##x
#define RETURN_IF_ERROR(x) mine_##x
#define ASSIGN_OR_RETURN(x, y) mine_##x
int mine_a = 1;
static_assert(CHECK == 7);
thalweg::Output Line(thalweg::Output x, const thalweg::Var& w, const thalweg::Var& b) { return x * w + b; }
int main() { return LOG(a) - VLOG(a) + RETURN_IF_ERROR(a) - ASSIGN_OR_RETURN(a, 0); }
"""
SHORT = """
#include <thalweg/api.h>
#include <thalweg/short_macros.h>
absl::Status Close(thalweg::Session& session) {
  CHECK(true) << "never";
  VLOG(1) << "closes";
  ASSIGN_OR_RETURN(const auto devices, session.ListDevices());
  LOG(INFO) << devices.size();
  RETURN_IF_ERROR(session.Close());
  return absl::OkStatus();
}
"""


def read_list(text):
    """{section: [header]} of a list of headers."""
    sections, current = {}, None
    for line in text.splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current.append(line)
    return sections


def check_header(name, text, public):
    """Violations of one public header."""
    problems = []
    for include in INCLUDE.findall(text):
        if include.startswith("thalweg/") and include not in public:
            problems.append(f"{name}: includes {include}, which is not public")
        if re.match(r"google/protobuf|grpc", include):
            problems.append(f"{name}: includes <{include}>")
    for macro in MACRO.findall(text):
        if not macro.startswith("THALWEG_") and not name.endswith("short_macros.h"):
            problems.append(f"{name}: defines {macro}")
    shown = COMMENT.sub("", PRIVATE.sub("", FORWARD.sub("", INTERNAL.sub("", text))))
    problems += [f"{name}: shows {match} to users" for match in re.findall(r"\b(?:tensorflow|google)::\w+", shown)]
    return problems


class PublicHeadersTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.sections = read_list((ROOT / "thalweg/public_headers.txt").read_text())
        cls.public = set(sum(cls.sections.values(), []))

    def test_they_are_a_closed_set(self):
        problems = []
        for header in sorted(self.public):
            problems += check_header(header, (ROOT / header).read_text(), self.public)
        self.assertEqual(problems, [])

    def test_constructors_of_ops_take_no_bare_flags(self):
        """Flags are members of ...Options: a call says which one it sets."""
        flags = []
        for header in sorted(self.public):
            if header.startswith("thalweg/ops/"):
                parameters = re.findall(r"[(,]\s*bool\s+(\w+)", COMMENT.sub("", (ROOT / header).read_text()))
                flags += [f"{header}: {flag}" for flag in parameters]
        self.assertEqual(flags, [])

    def test_few_headers_name_messages(self):
        """Only graphs and shapes become messages, in parts that the documentation leaves out. No other header declares one."""
        names = re.compile(r"\b(?:namespace )?(?:tensorflow|google|grpc)\b(?:::| \{)")
        naming = {h for h in self.public if names.search(COMMENT.sub("", (ROOT / h).read_text()))}
        self.assertEqual(naming, {"thalweg/graph/attr_arg.h", "thalweg/graph/graph.h", "thalweg/graph/run_metadata.h",
                                  "thalweg/graph/scope.h", "thalweg/tensor/shape.h"})

    def test_the_api_has_them_all(self):
        included = INCLUDE.findall((ROOT / "thalweg/api.h").read_text())
        self.assertEqual(sorted(included), included)
        self.assertEqual(set(included), set(self.sections["api"]) - {"thalweg/api.h", "thalweg/short_macros.h"})

    def test_the_list_is_sorted_and_has_nothing_twice(self):
        self.assertEqual(len(self.public), sum(len(section) for section in self.sections.values()))
        self.assertEqual(sorted(self.sections["api"][2:]), self.sections["api"][2:])
        self.assertEqual(sorted(self.sections["support"]), self.sections["support"])


class ProgramTest(unittest.TestCase):
    """The compiler sees only the public headers, copied to a folder of their own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for header in set(sum(read_list((ROOT / "thalweg/public_headers.txt").read_text()).values(), [])):
            target = pathlib.Path(self.folder.name) / header
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / header, target)

    def compile(self, text, *options):
        done = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Wextra", "-Werror",
                               "-Wno-unused-parameter", "-I", self.folder.name, "-x", "c++", "-", *options],
                              input=text, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_program_keeps_its_macros(self):
        self.compile(PROGRAM, "-fsyntax-only")

    def test_short_macros_are_there_for_those_who_ask(self):
        self.compile(SHORT, "-fsyntax-only")

    def test_no_header_of_protobuf_or_grpc_is_seen(self):
        headers = self.compile("#include <thalweg/api.h>\n", "-M").split()
        self.assertIn("absl/status/status.h", " ".join(headers))
        self.assertEqual([header for header in headers if re.search(r"google/protobuf|grpc|\.pb\.h", header)], [])


class CheckerTest(unittest.TestCase):
    """The checks themselves, on headers with known violations."""

    def test_finds_what_is_wrong(self):
        public = {"thalweg/a.h"}
        self.assertEqual(check_header("a.h", '#include "thalweg/a.h"\n#include "absl/x.h"\n', public), [])
        self.assertEqual(check_header("a.h", '#include "thalweg/b.h"\n', public),
                         ["a.h: includes thalweg/b.h, which is not public"])
        self.assertEqual(check_header("a.h", "#include <google/protobuf/message.h>\n", public),
                         ["a.h: includes <google/protobuf/message.h>"])
        self.assertEqual(check_header("a.h", "#define LOG(x) x\n#define THALWEG_X\n", public), ["a.h: defines LOG"])
        self.assertEqual(check_header("a.h", "tensorflow::NodeDef Def();\n", public),
                         ["a.h: shows tensorflow::NodeDef to users"])

    def test_internal_and_private_parts_are_not_shown(self):
        text = ("namespace tensorflow {\nclass NodeDef;\n}\n// tensorflow::NodeDef\nclass A {\n public:\n"
                "  /// @cond INTERNAL\n  tensorflow::NodeDef Def();\n  /// @endcond\n private:\n"
                "  std::unique_ptr<tensorflow::NodeDef> def_;\n};\n")
        self.assertEqual(check_header("a.h", text, set()), [])
        self.assertEqual(check_header("a.h", text.replace(" private:", "  int x;\n"), set()),
                         ["a.h: shows tensorflow::NodeDef to users"])

    def test_reads_sections(self):
        self.assertEqual(read_list("# c\n[api]\na.h\n\n# d\n[support]\nb.h\n"), {"api": ["a.h"], "support": ["b.h"]})


if __name__ == "__main__":
    unittest.main()
