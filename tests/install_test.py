#!/usr/bin/env python3
"""What `make install` installs is all there, and works where it is."""

import os
import subprocess
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BUILD = os.path.join(os.environ.get("THALWEG_BIN", "build/release/bin"), "..")


def output_of(*command):
  return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


class InstallTest(unittest.TestCase):

  def test_an_installed_program_needs_no_source(self):
    with tempfile.TemporaryDirectory() as prefix:
      output_of("env", "-u", "DESTDIR", "cmake", "--install", BUILD, "--prefix", prefix)
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


if __name__ == "__main__":
  unittest.main()
