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
_failed = False
_called = False
_missing_in_thread = None  # the message about an op that a thread missed


def when_script_ends(callback):
    """`callback(ended_well)` runs once, before the process ends. Forked processes do not inherit it."""
    if callback not in _callbacks:
        _callbacks.append(callback)


def _forget_callbacks():
    global _called
    _callbacks.clear()
    _called = False


def _call(ended_well):
    global _called
    if _called:
        return
    _called = True
    for callback in list(_callbacks):
        callback(ended_well)


def _notice_code(code):
    global _failed
    if threading.current_thread() is threading.main_thread():  # elsewhere only the thread ends
        _failed = code not in (None, 0)


def _missing_op(error):
    found = re.search(r"Op type not registered '.*", str(error))
    return found and found.group()


def _repeat_missing_op(message):
    """TensorFlow ends its messages with stack traces, in which an op that the server does not have is easily missed."""
    if message:
        sys.stderr.write("thalweg: %s\n" % message)
        sys.stderr.flush()


def _note_missing_op(error):
    """The script goes on after an exception in a thread. The message is repeated when it ends."""
    global _missing_in_thread
    _missing_in_thread = _missing_op(error) or _missing_in_thread


def _watch_threads():
    hook = getattr(threading, "excepthook", None)
    if hook is not None:

        def noting_hook(args):
            hook(args)
            _note_missing_op(args.exc_value)

        threading.excepthook = noting_hook
        return
    start = threading.Thread.start  # before Python 3.8

    def noting_start(self):
        run = self.run

        def noting_run():
            try:
                run()
            except Exception as error:
                _note_missing_op(error)
                raise

        self.run = noting_run
        try:
            start(self)
        except BaseException:
            self.run = run
            raise

    threading.Thread.start = noting_start


def _watch_exits():
    excepthook, sys_exit, os_exit = sys.excepthook, sys.exit, os._exit

    def failing_excepthook(*args):
        global _failed, _missing_in_thread
        _failed = True
        excepthook(*args)
        missing = _missing_op(args[1])
        _repeat_missing_op(missing)
        _missing_in_thread = None if missing else _missing_in_thread

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
    _repeat_missing_op(_missing_in_thread)
    _call(not _failed and not hasattr(sys, "last_type"))


_watch_exits()
_watch_threads()
os.register_at_fork(after_in_child=_forget_callbacks)
