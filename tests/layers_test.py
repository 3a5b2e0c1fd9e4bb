# SPDX-License-Identifier: Apache-2.0
"""Checks the layers of docs/architecture.md against every #include of thalweg/."""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ("*.h", "*.cc", "*.proto")

# An #include of C++, or an import of a .proto.
INCLUDE = re.compile(r'^\s*(?:#\s*include\s*[<"]|import\s+(?:public\s+)?")([^">]+)[">]', re.MULTILINE)
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")
COMMENT = re.compile(r"//[^\n]*")
TEST = re.compile(r"_test(lib)?\.(cc|h)$")


def read_layers(document):
    """The table of layers: {folder: [folders it may include]}, in its order."""
    section = document.split("\n## Layers\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \|([\w ]*)\| .+\|$", section, re.MULTILINE)
    return {folder: allowed.split() for folder, allowed in rows if folder != "folder"}


def check_table(layers):
    """Rows that allow a folder that is not above them."""
    problems, above = [], set()
    for folder, allowed in layers.items():
        problems += [f"docs/architecture.md: {folder} may include {other}, which is not above it"
                     for other in allowed if other not in above]
        above.add(folder)
    return problems


def may_include(path, folder, layers):
    """The folders that a file may include: those of its row or, for a test, everything above it."""
    if TEST.search(path.name):
        names = list(layers)
        return names[:names.index(folder)]
    return layers[folder]


def check_file(path, folder, layers):
    """Violations in one file. Files directly in thalweg/ have no folder."""
    text = COMMENT.sub("", path.read_text())
    problems = []
    for include in INCLUDE.findall(text):
        parts = include.split("/")
        if parts[0] == "grpcpp" and folder != "rpc":
            problems.append(f"{path}: includes <{include}>; only rpc/ may")
        if parts[0] != "thalweg" or folder is None:
            continue
        if len(parts) == 2:
            problems.append(f"{path}: includes {include}, which is for users")
        elif parts[1] != folder and parts[1] not in may_include(path, folder, layers):
            problems.append(f"{path}: {folder}/ may not include {parts[1]}/ ({include})")
    if GETENV.search(text) and folder not in ("cli", "launch"):
        problems.append(f"{path}: reads the environment; only cli/ and launch/ may")
    return problems


def check_tree(thalweg, layers):
    """All violations below the folder thalweg/."""
    problems = check_table(layers)
    for folder in sorted(path for path in thalweg.iterdir() if path.is_dir()):
        files = sorted(file for pattern in SOURCES for file in folder.rglob(pattern))
        if files and folder.name not in layers:
            problems.append(f"{folder}: is not in the table of docs/architecture.md")
            continue
        for file in files:
            problems += check_file(file, folder.name, layers)
    for file in sorted(file for pattern in SOURCES for file in thalweg.glob(pattern)):
        problems += check_file(file, None, layers)
    return problems


def check_unused(thalweg, layers):
    """Rows that allow an include that no file of the product has."""
    problems = []
    for folder, allowed in layers.items():
        files = [file for pattern in SOURCES for file in (thalweg / folder).rglob(pattern) if not TEST.search(file.name)]
        includes = {include.split("/")[1] for file in files for include in INCLUDE.findall(file.read_text())
                    if include.startswith("thalweg/")}
        problems += [f"docs/architecture.md: {folder} may include {other}, but never does"
                     for other in allowed if other not in includes]
    return problems


def read_build(build):
    """The folders that the build file builds: {folder: {"USES": [folders], "TESTS_USE": [folders]}}."""
    folders = {name: {} for name in re.findall(r"^thalweg_protos\((\w+)", build, re.MULTILINE)}
    for folder, arguments in re.findall(r"^thalweg_folder\((\w+)([^)]*)\)", build, re.MULTILINE):
        lists, current = {}, []
        for word in arguments.split():
            if re.fullmatch("[A-Z_]+", word):
                current = lists.setdefault(word, [])
            else:
                current.append(word)
        folders[folder] = lists
    return folders


def check_build(layers, build):
    """Rows for folders that the build file does not build, or builds with other folders than the row allows."""
    problems, built = [], read_build(build)
    for folder, allowed in layers.items():
        if folder not in built:
            problems.append(f"thalweg/CMakeLists.txt: {folder}, of the table of docs/architecture.md, is not built")
        elif built[folder].get("USES", []) != allowed:
            problems.append(f"thalweg/CMakeLists.txt: {folder} USES {' '.join(built[folder].get('USES', []))}; "
                            f"docs/architecture.md says {' '.join(allowed)}")
    return problems


def check_tests(thalweg, layers, build):
    """Folders whose TESTS_USE differs from the includes of their tests that their row does not allow."""
    problems, built = [], read_build(build)
    for folder, allowed in layers.items():
        files = [file for pattern in SOURCES for file in (thalweg / folder).rglob(pattern) if TEST.search(file.name)]
        includes = {include.split("/")[1] for file in files for include in INCLUDE.findall(file.read_text())
                    if include.startswith("thalweg/")}
        needed = [other for other in layers if other in includes and other != folder and other not in allowed]
        listed = built.get(folder, {}).get("TESTS_USE", [])
        if listed != needed:
            problems.append(f"thalweg/CMakeLists.txt: {folder} TESTS_USE {' '.join(listed)}; its tests include "
                            f"{' '.join(needed)}")
    return problems


class LayersTest(unittest.TestCase):
    maxDiff = None

    def test_the_project_keeps_its_layers(self):
        layers = read_layers((ROOT / "docs/architecture.md").read_text())
        self.assertIn("base", layers)
        self.assertIn("cli", layers)
        self.assertEqual(layers["tensor"], ["base", "proto"])
        self.assertEqual(check_tree(ROOT / "thalweg", layers), [])
        self.assertEqual(check_unused(ROOT / "thalweg", layers), [])
        build = (ROOT / "thalweg/CMakeLists.txt").read_text()
        self.assertEqual(check_build(layers, build), [])
        self.assertEqual(check_tests(ROOT / "thalweg", layers, build), [])


class CheckerTest(unittest.TestCase):
    """The checks themselves, on small trees with known violations."""

    LAYERS = {"base": [], "graph": ["base"], "rpc": ["base", "graph"], "cli": ["base", "graph", "rpc"]}

    def problems(self, files, layers=None, check=check_tree):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / "thalweg"
            root.mkdir()
            for name, text in files.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text)
            found = check(root, layers or self.LAYERS)
            return [problem.replace(str(root) + "/", "") for problem in found]

    def test_reads_the_table(self):
        document = "# A\n\n## Layers\n\n| folder | may include | holds |\n|---|---|---|\n" \
                   "| base | | x |\n| graph | base | y |\n\n## More\n\n| other | base | z |\n"
        self.assertEqual(read_layers(document), {"base": [], "graph": ["base"]})

    def test_accepts_what_is_allowed(self):
        self.assertEqual(self.problems({
            "base/a.h": "#include <vector>\n#include \"absl/status/status.h\"\n",
            "graph/g.cc": '#include "thalweg/graph/g.h"\n#include "thalweg/base/a.h"\n',
            "graph/g.proto": 'import "thalweg/base/a.proto";\n',
            "rpc/r.cc": "#include <grpcpp/grpcpp.h>\n",
            "cli/c.cc": 'const char* home = getenv("HOME");\n',
            "api.h": '#include "thalweg/rpc/r.h"\n',
            "base/comment.cc": '// #include "thalweg/graph/g.h", getenv(x)\n',
        }), [])

    def test_finds_an_include_of_a_lower_layer(self):
        self.assertEqual(self.problems({"base/a.cc": '#include "thalweg/graph/g.h"\n'}),
                         ["base/a.cc: base/ may not include graph/ (thalweg/graph/g.h)"])
        self.assertEqual(self.problems({"base/a.cc": '  #  include <thalweg/graph/g.h>\n'}),
                         ["base/a.cc: base/ may not include graph/ (thalweg/graph/g.h)"])
        self.assertEqual(self.problems({"base/a.proto": 'import "thalweg/graph/g.proto";\n'}),
                         ["base/a.proto: base/ may not include graph/ (thalweg/graph/g.proto)"])

    def test_a_test_may_include_all_that_is_above(self):
        layers = {"base": [], "ops": ["base"], "runtime": ["base"], "cli": ["runtime"]}
        include = '#include "thalweg/ops/o.h"\n'
        self.assertEqual(self.problems({"runtime/r_test.cc": include, "runtime/r_testlib.h": include}, layers), [])
        self.assertEqual(self.problems({"runtime/r.cc": include}, layers),
                         ["runtime/r.cc: runtime/ may not include ops/ (thalweg/ops/o.h)"])
        self.assertEqual(self.problems({"runtime/r_test.cc": '#include "thalweg/cli/c.h"\n'}, layers),
                         ["runtime/r_test.cc: runtime/ may not include cli/ (thalweg/cli/c.h)"])

    def test_finds_an_include_of_the_header_for_users(self):
        self.assertEqual(self.problems({"graph/g.cc": '#include "thalweg/api.h"\n'}),
                         ["graph/g.cc: includes thalweg/api.h, which is for users"])

    def test_finds_grpc_outside_rpc(self):
        self.assertEqual(self.problems({"cli/c.cc": "#include <grpcpp/grpcpp.h>\n"}),
                         ["cli/c.cc: includes <grpcpp/grpcpp.h>; only rpc/ may"])

    def test_finds_getenv(self):
        for call in ('std::getenv("X")', 'secure_getenv ("X")', "extern char** environ;"):
            self.assertEqual(self.problems({"graph/g.cc": call}),
                             ["graph/g.cc: reads the environment; only cli/ and launch/ may"])

    def test_finds_a_folder_without_a_row(self):
        self.assertEqual(self.problems({"new/n.cc": ""}), ["new: is not in the table of docs/architecture.md"])

    def test_finds_a_row_of_which_nothing_is_built(self):
        build = "thalweg_protos(base)\nthalweg_folder(graph PCH common USES base)\n# thalweg_folder(rpc)\n"
        self.assertEqual(check_build({"base": [], "graph": ["base"]}, build), [])
        self.assertEqual(check_build({"base": [], "graph": []}, build),
                         ["thalweg/CMakeLists.txt: graph USES base; docs/architecture.md says "])
        self.assertEqual(check_build(self.LAYERS, build),
                         ["thalweg/CMakeLists.txt: rpc, of the table of docs/architecture.md, is not built",
                          "thalweg/CMakeLists.txt: cli, of the table of docs/architecture.md, is not built"])

    def test_finds_folders_that_the_tests_use(self):
        layers = {"base": [], "graph": ["base"], "ops": ["graph"], "rpc": []}
        files = {"ops/o_test.cc": '#include "thalweg/base/a.h"\n#include "thalweg/graph/g.h"\n',
                 "ops/o.cc": '#include "thalweg/rpc/r.h"\n'}

        def problems(build):
            return self.problems(files, layers, lambda root, _: check_tests(root, layers, build))
        self.assertEqual(problems("thalweg_folder(ops PCH x USES graph\n  TESTS_USE base LINK z)"), [])
        self.assertEqual(problems("thalweg_folder(ops USES graph)"),
                         ["thalweg/CMakeLists.txt: ops TESTS_USE ; its tests include base"])
        self.assertEqual(problems("thalweg_folder(ops USES graph TESTS_USE base rpc)"),
                         ["thalweg/CMakeLists.txt: ops TESTS_USE base rpc; its tests include base"])

    def test_finds_a_row_that_allows_what_nobody_includes(self):
        include = '#include "thalweg/base/a.h"\n'
        layers = {"base": [], "graph": ["base"]}
        self.assertEqual(self.problems({"graph/g.cc": include}, layers, check_unused), [])
        self.assertEqual(self.problems({"graph/g_test.cc": include}, layers, check_unused),
                         ["docs/architecture.md: graph may include base, but never does"])

    def test_finds_a_row_that_allows_what_is_below(self):
        self.assertEqual(check_table({"base": ["graph"], "graph": ["base"]}),
                         ["docs/architecture.md: base may include graph, which is not above it"])


if __name__ == "__main__":
    unittest.main()
