#!/usr/bin/env python3
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


def install(prefix):
  output_of("env", "-u", "DESTDIR", "cmake", "--install", BUILD, "--prefix", prefix)


def cached(variable):
  """The value of a variable of the build that is installed."""
  with open(os.path.join(BUILD, "CMakeCache.txt")) as cache:
    return next(line.split("=", 1)[1].strip() for line in cache if line.startswith(variable + ":"))


class InstallTest(unittest.TestCase):

  def test_an_installed_program_needs_no_source(self):
    with tempfile.TemporaryDirectory() as prefix:
      install(prefix)
      thalweg = os.path.join(prefix, "bin", "thalweg")
      self.assertRegex(output_of(thalweg, "version"), r"^thalweg \d+\.\d+\.\d+\n$")
      # TensorFlow programs start with the files beside it.
      script = os.path.join(prefix, "script.sh")
      with open(script, "w") as file:
        file.write('echo "$PYTHONPATH" | cut -d : -f 1\n')
      shim = output_of(thalweg, "python", "--python=sh", script).strip()
      self.assertEqual(os.path.realpath(shim), os.path.realpath(os.path.join(prefix, "share", "thalweg", "python")))
      for name in os.listdir(os.path.join(SOURCE, "python", "shim")):
        if name.endswith(".py"):
          self.assertTrue(os.path.exists(os.path.join(shim, name)), name)
      for name in ["LICENSE", "README.md", "CHANGELOG.md"]:
        with open(os.path.join(prefix, "share", "doc", "thalweg", name)) as installed:
          with open(os.path.join(SOURCE, name)) as source:
            self.assertEqual(installed.read(), source.read(), name)

  def test_a_program_of_another_project_finds_the_api(self):
    with tempfile.TemporaryDirectory() as prefix, tempfile.TemporaryDirectory() as project:
      install(prefix)
      for name in os.listdir(prefix):
        self.assertIn(name, ["bin", "include", "lib", "share"])
      shutil.copy(os.path.join(SOURCE, "examples", "hello.cc"), project)
      with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
        file.write("cmake_minimum_required(VERSION 3.25)\n"
                   "project(hello LANGUAGES CXX)\n"
                   "find_package(thalweg 0.1 REQUIRED)\n"
                   "add_executable(hello hello.cc)\n"
                   "target_link_libraries(hello PRIVATE thalweg::thalweg)\n")
      sanitize = cached("THALWEG_SANITIZE")
      build = os.path.join(project, "build")
      output_of("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
                f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}",
                f"-DCMAKE_CXX_FLAGS={f'-fsanitize={sanitize}' if sanitize else ''}")
      output_of("cmake", "--build", build, timeout=300)
      self.assertEqual(output_of(os.path.join(build, "hello")), "Hello, Thalweg!\n")


if __name__ == "__main__":
  unittest.main()
