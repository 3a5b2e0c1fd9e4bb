# SPDX-License-Identifier: Apache-2.0
"""Calls functions when the script ends, and tells them whether it ended well.

Python tells functions that run at exit nothing about how the script ended, and runs none of them when a process ends
by os._exit(), as the children of multiprocessing do.
"""

import atexit
import builtins
import os
import re
import sys
import threading

_callbacks = []
_missing_in_threads = []
_failed = False
_called = False


def when_script_ends(callback):
    """`callback(ended_well)` runs once, before the process ends. Forked processes do not inherit it."""
    if callback not in _callbacks:
        _callbacks.append(callback)


def _forget_callbacks():
    global _called
    _callbacks.clear()
    _missing_in_threads.clear()
    _called = False


def _call(ended_well):
    global _called
    if _called:
        return
    _called = True
    for callback in list(_callbacks):
        callback(ended_well)
    for missing in _missing_in_threads:
        _repeat(missing)


def _notice_code(code):
    global _failed
    if threading.current_thread() is threading.main_thread():  # elsewhere only the thread ends
        _failed = code not in (None, 0)


def _missing_op(error):
    """The part of the message that names an op that the server does not have, or None."""
    missing = re.search(r"Op type not registered '.*", str(error))
    return missing.group() if missing else None


def _repeat(missing):
    """TensorFlow ends its messages with stack traces, in which an op that the server does not have is easily missed."""
    sys.stderr.write("thalweg: %s\n" % missing)
    sys.stderr.flush()


def _watch_threads():
    """Remembers missing ops that ended a thread. They are repeated when the script ends, as its last words."""
    def remember(error):
        missing = _missing_op(error)
        if missing and missing not in _missing_in_threads:
            _missing_in_threads.append(missing)

    if hasattr(threading, "excepthook"):  # since Python 3.8
        excepthook = threading.excepthook

        def remembering_excepthook(args):
            remember(args.exc_value)
            excepthook(args)

        threading.excepthook = remembering_excepthook
        return
    start = threading.Thread.start

    def watching_start(self):
        run = self.run  # that of a subclass, too

        def watched_run():
            try:
                run()
            except Exception as error:
                remember(error)
                raise
            finally:
                self.__dict__.pop("run", None)  # no cycle stays behind

        self.run = watched_run
        start(self)

    threading.Thread.start = watching_start


def _watch_exits():
    excepthook, sys_exit, os_exit = sys.excepthook, sys.exit, os._exit

    def failing_excepthook(*args):
        global _failed
        _failed = True
        excepthook(*args)
        missing = _missing_op(args[1])
        if missing:
            _repeat(missing)

    def noticing_exit(code=None):
        _notice_code(code)
        sys_exit(code)

    def calling_os_exit(status):
        _call(status == 0)
        os_exit(status)

    sys.excepthook, sys.exit, os._exit = failing_excepthook, noticing_exit, calling_os_exit
    for quitter in (getattr(builtins, "exit", None), getattr(builtins, "quit", None)):
        if quitter is not None:  # absent without the module site
            _watch_quitter(type(quitter))


def _watch_quitter(quitter):
    call = quitter.__call__
    if getattr(call, "noticing", False):
        return

    def noticing_call(self, code=None):
        _notice_code(code)
        call(self, code)

    noticing_call.noticing = True
    quitter.__call__ = noticing_call


@atexit.register
def _at_exit():
    # The interpreter keeps the exception that ended the script, whatever hook has printed it.
    _call(not _failed and not hasattr(sys, "last_type"))


_watch_exits()
_watch_threads()
os.register_at_fork(after_in_child=_forget_callbacks)
