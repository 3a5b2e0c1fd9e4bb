#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that an installation by `make install` is complete and works at its location."""

import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BUILD = os.path.join(os.environ.get("THALWEG_BIN", "build/release/bin"), "..")


def output_of(*command, timeout=60):
  done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
  if done.returncode != 0:
    raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
  return done.stdout


def cached(variable):
  """The value of a variable of the build that is installed."""
  with open(os.path.join(BUILD, "CMakeCache.txt")) as cache:
    return next(line.split("=", 1)[1].strip() for line in cache if line.startswith(variable + ":"))


def sanitizer():
  """The flags that a program needs whose library is built with a sanitizer."""
  sanitize = cached("THALWEG_SANITIZE")
  return [f"-fsanitize={sanitize}"] if sanitize else []


class InstallTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    folder = tempfile.TemporaryDirectory()
    cls.addClassCleanup(folder.cleanup)
    cls.prefix = os.path.join(folder.name, "prefix")
    cls.project = os.path.join(folder.name, "project")
    os.mkdir(cls.project)
    output_of("env", "-u", "DESTDIR", "cmake", "--install", BUILD, "--prefix", cls.prefix)

  def test_an_installed_program_needs_no_source(self):
    thalweg = os.path.join(self.prefix, "bin", "thalweg")
    self.assertRegex(output_of(thalweg, "version"), r"^thalweg \d+\.\d+\.\d+\n$")
    # TensorFlow programs start with the files beside it.
    script = os.path.join(self.project, "script.sh")
    with open(script, "w") as file:
      file.write('echo "$PYTHONPATH" | cut -d : -f 1\n')
    shim = output_of(thalweg, "python", "--python=sh", script).strip()
    self.assertEqual(os.path.realpath(shim), os.path.realpath(os.path.join(self.prefix, "share", "thalweg", "python")))
    for name in os.listdir(os.path.join(SOURCE, "python", "shim")):
      if name.endswith(".py"):
        self.assertTrue(os.path.exists(os.path.join(shim, name)), name)
    for name in ["LICENSE", "README.md", "CHANGELOG.md"]:
      with open(os.path.join(self.prefix, "share", "doc", "thalweg", name)) as installed:
        with open(os.path.join(SOURCE, name)) as source:
          self.assertEqual(installed.read(), source.read(), name)

  def build_hello(self, find, library):
    """Builds examples/hello.cc as another project would, and returns the program."""
    project = os.path.join(self.project, library.replace("::", "-"))
    os.makedirs(project)
    shutil.copy(os.path.join(SOURCE, "examples", "hello.cc"), project)
    with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
      file.write("cmake_minimum_required(VERSION 3.25)\n"
                 "project(hello LANGUAGES CXX)\n"
                 f"find_package({find})\n"
                 "add_executable(hello hello.cc)\n"
                 f"target_link_libraries(hello PRIVATE {library})\n")
    build = os.path.join(project, "build")
    output_of("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
              f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}", f"-DCMAKE_CXX_FLAGS={' '.join(sanitizer())}")
    output_of("cmake", "--build", build, timeout=300)
    return os.path.join(build, "hello")

  def test_only_what_belongs_there_is_installed(self):
    for name in os.listdir(self.prefix):
      self.assertIn(name, ["bin", "include", "lib", "share"])

  def test_a_program_of_another_project_uses_the_shared_library(self):
    hello = self.build_hello("thalweg 0.1 REQUIRED", "thalweg::thalweg")
    self.assertEqual(output_of(hello), "Hello, Thalweg!\n")
    # A program names the version whose successors are compatible, and holds no copy of the library.
    self.assertRegex(output_of("ldd", hello), r"libthalweg\.so\.\d+\.\d+ =>")
    self.assertLess(os.path.getsize(hello), 8 << 20)

  def test_a_program_of_another_project_uses_the_static_library(self):
    hello = self.build_hello("thalweg 0.1 REQUIRED COMPONENTS static", "thalweg::static")
    self.assertNotIn("libthalweg", output_of("ldd", hello))
    self.assertEqual(output_of(hello), "Hello, Thalweg!\n")

  def test_pkg_config_names_the_flags_of_both_libraries(self):
    libraries = os.path.join(self.prefix, "lib")
    os.environ["PKG_CONFIG_PATH"] = os.path.join(libraries, "pkgconfig")
    self.assertRegex(output_of("pkg-config", "--modversion", "thalweg"), r"^0\.1\.")
    for package, environment in [("thalweg", [f"LD_LIBRARY_PATH={libraries}"]), ("thalweg-static", [])]:
      hello = os.path.join(self.project, f"hello-{package}")
      flags = output_of("pkg-config", "--cflags", "--libs", package).split()
      output_of(cached("CMAKE_CXX_COMPILER"), "-std=c++20", *sanitizer(), os.path.join(SOURCE, "examples", "hello.cc"),
                "-o", hello, *flags, timeout=300)
      self.assertEqual(output_of("env", *environment, hello), "Hello, Thalweg!\n", package)


if __name__ == "__main__":
  unittest.main()
