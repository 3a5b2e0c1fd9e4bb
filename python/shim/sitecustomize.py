# SPDX-License-Identifier: Apache-2.0
"""Makes the servers of a TensorFlow program Thalweg's.

`thalweg python script.py` puts this folder in front of PYTHONPATH, so that Python imports this file when it starts.
Nothing of TensorFlow is changed on disk: when the module that defines tf.train.Server is imported, its class is given
other methods.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _patch_servers(module):
    import thalweg_server
    thalweg_server.patch_server_class(module)


def _patch_sessions(module):
    import thalweg_server
    thalweg_server.patch_session_class(module)


def _patch_coordinator(module):
    import thalweg_server
    thalweg_server.patch_coordinator_class(module)


def _patch_session_manager(module):
    import thalweg_server
    thalweg_server.patch_session_manager_class(module)


def _patch_monitored_session(module):
    import thalweg_server
    thalweg_server.patch_recoverable_session_class(module)


def _patch_hooks(module):
    import thalweg_server
    thalweg_server.patch_stop_hook_class(module)


# By the end of the module's name: TensorFlow 1.15 calls its package tensorflow_core.
_PATCHES = {
    ".python.training.server_lib": _patch_servers,
    ".python.training.coordinator": _patch_coordinator,
    ".python.training.session_manager": _patch_session_manager,
    ".python.training.basic_session_run_hooks": _patch_hooks,
    ".python.training.monitored_session": _patch_monitored_session,
}
if os.environ.get("THALWEG_SESSIONS"):
    _PATCHES[".python.client.session"] = _patch_sessions


class _PatchingFinder:
    """Finds the modules of _PATCHES as others do, and changes them once they are loaded."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith("tensorflow"):
            return None
        patch = next((p for suffix, p in _PATCHES.items() if name.endswith(suffix)), None)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module
        return spec


def _run_next_sitecustomize():
    """This file hides another of its name further down the path: that one runs too."""
    rest = [p for p in sys.path if os.path.abspath(p or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("THALWEG_BINARY"):
    sys.meta_path.insert(0, _PatchingFinder)
_run_next_sitecustomize()
