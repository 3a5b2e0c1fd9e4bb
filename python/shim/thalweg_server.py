"""Servers as processes that live as long as the script that made them.

A script that ends well says so to its servers, which tell the other tasks: a parameter server that waits in join()
goes on when all workers have.
"""

import atexit
import os
import re
import subprocess
import sys
import threading

# TensorFlow's Coordinator grants threads this long to end before the session is closed, which ends them at once.
_TENSORFLOW_GRACE_SECONDS = 120
_GRACE_SECONDS = 5
_ORPHAN_CODE = 132  # of a server that no worker needs any more


def _log(text):
    sys.stderr.write("thalweg: %s\n" % text)
    sys.stderr.flush()


class ServerProcess:
    """One `thalweg server`. Its log comes through on stderr; it ends when this object, or this process, does."""

    def __init__(self, server_def, cpus=1):
        # The server ends when nobody holds the writing end any more: when this process does, however that happens.
        lifeline, self._lifeline = os.pipe()
        command = [os.environ["THALWEG_BINARY"], "server", "--server_def=-", "--cpus=%d" % cpus,
                   "--lifeline=%d" % lifeline]
        if os.environ.get("THALWEG_ORPHAN_AFTER"):
            command.append("--orphan_after=" + os.environ["THALWEG_ORPHAN_AFTER"])
        if os.environ.get("THALWEG_ORPHAN_CHECKPOINT"):
            command.append("--orphan_checkpoint=" + os.environ["THALWEG_ORPHAN_CHECKPOINT"])
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(lifeline,))
        finally:
            os.close(lifeline)
        self._stopping = False
        self._failure = None
        self.target = None
        self._process.stdin.write(server_def.SerializeToString())
        self._process.stdin.close()
        self._read_start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _read_start(self):
        for line in iter(self._process.stdout.readline, b""):
            text = line.decode("utf-8", "replace").rstrip()
            started = re.match(r"Started server with target: (grpc://\S+)", text)
            if started:
                _log(text)
                self.target = started.group(1)
                return
            failed = re.match(r"Server failed: (\w+): (.*)", text)
            if failed:
                self._failure = failed.groups()
            else:
                _log(text)
        self._process.wait()
        if self._failure is None:
            self._failure = ("INTERNAL", "the server ended with code %d before it had started"
                             % self._process.returncode)

    @property
    def failure(self):
        """Why it did not start: name of the code, and message; None if it did."""
        return self._failure

    def _watch(self):
        for line in iter(self._process.stdout.readline, b""):
            _log(line.decode("utf-8", "replace").rstrip())
        code = self._process.wait()
        if not self._stopping:
            _log("the server at %s has ended, %s" % (
                self.target, "with code %d" % code if code >= 0 else "by signal %d" % -code))

    def _tell(self, word):
        try:
            os.write(self._lifeline, word)
        except OSError:
            pass  # it has ended

    def join(self):
        """Waits for its end, which is that of the job; returns its exit code."""
        if self._lifeline is not None:
            self._tell(b"J")
        return self._process.wait()

    def stop(self, done=False):
        """Ends it. `done`: the script's work is, and the other tasks are told."""
        if self._stopping:
            return
        self._stopping = True
        if done:
            self._tell(b"D")
        else:
            os.close(self._lifeline)
            self._lifeline = None
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


_running = set()
_released = set()  # of tf.train.Servers that are gone: they serve until the script ends or makes new ones
_failed = False


def _watch_script_end():
    """Notices if the script ends with an error: nothing else tells functions that run at exit."""
    excepthook, sys_exit = sys.excepthook, sys.exit

    def failing_excepthook(*args):
        global _failed
        _failed = True
        excepthook(*args)

    def noticing_exit(code=None):
        global _failed
        _failed = code not in (None, 0)
        sys_exit(code)

    sys.excepthook, sys.exit = failing_excepthook, noticing_exit


_watch_script_end()


@atexit.register
def _stop_all():
    for process in list(_running):
        process.stop(done=not _failed)


def _start(errors, server_def, cpus=1):
    while _released:
        process = _released.pop()
        _running.discard(process)
        process.stop()
    process = ServerProcess(server_def, cpus)
    if process.failure:
        code, message = process.failure
        raise errors.exception_type_from_error_code(getattr(errors, code))(None, None, message)
    _running.add(process)
    return process


def _errors_of(module):
    # Imported late: this file is loaded while TensorFlow is.
    package = module.__name__.split(".")[0]
    return __import__(package + ".python.framework.errors_impl", fromlist=["errors_impl"])


def patch_server_class(module):
    """Gives tf.train.Server methods that start and watch a process."""

    def init(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None, config=None, start=True):
        self._server_def = module._make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        cpus = max(1, self._server_def.default_session_config.device_count.get("CPU", 1))
        self._server = _start(_errors_of(module), self._server_def, cpus)

    def delete(self):
        server = getattr(self, "_server", None)
        if server is not None:
            _released.add(server)

    def join(self):
        code = self._server.join()
        if code == _ORPHAN_CODE:
            sys.exit(code)  # for launchers, as in programs without Python; the server has said why
        if code != 0:
            raise _errors_of(module).UnavailableError(
                None, None, "The server at %s ended with code %d" % (self._server.target, code))

    module.Server.__init__ = init
    module.Server.__del__ = delete
    module.Server.start = lambda self: None  # it listens since it was made
    module.Server.join = join
    module.Server.target = property(lambda self: self._server.target)


def patch_session_class(module):
    """Sends sessions without a target to a server of this process's own."""
    original = module.BaseSession.__init__
    lock = threading.Lock()
    servers = {}

    def init(self, target="", graph=None, config=None):
        if not target:
            package = module.__name__.split(".")[0]
            protos = __import__(package + ".core.protobuf.tensorflow_server_pb2", fromlist=["tensorflow_server_pb2"])
            config_pb2 = __import__(package + ".core.protobuf.config_pb2", fromlist=["config_pb2"])
            cpus = max(1, config.device_count.get("CPU", 1) if config is not None else 1)
            with lock:
                if cpus not in servers:
                    server_def = protos.ServerDef(job_name="localhost", protocol="grpc")
                    server_def.cluster.job.add(name="localhost").tasks[0] = "localhost:0"
                    servers[cpus] = _start(_errors_of(module), server_def, cpus)
                target = servers[cpus].target
            own = config_pb2.ConfigProto()
            if config is not None:
                own.CopyFrom(config)
            own.isolate_session_state = True  # as sessions in a process do not share variables
            del own.session_inter_op_thread_pool[:]
            config = own
        original(self, target, graph, config)

    module.BaseSession.__init__ = init


def patch_coordinator_class(module):
    """Does not wait two minutes for threads that only the end of the session ends."""
    original = module.Coordinator.join

    def join(self, threads=None, stop_grace_period_secs=_TENSORFLOW_GRACE_SECONDS, ignore_live_threads=False):
        if stop_grace_period_secs == _TENSORFLOW_GRACE_SECONDS:
            stop_grace_period_secs = _GRACE_SECONDS
            self._thalweg_said = getattr(self, "_thalweg_said", False)
            if not self._thalweg_said:
                self._thalweg_said = True
                _log("threads have %d s to end before their session is closed (TensorFlow's default: %d s)" % (
                    _GRACE_SECONDS, _TENSORFLOW_GRACE_SECONDS))
        return original(self, threads, stop_grace_period_secs, ignore_live_threads)

    module.Coordinator.join = join
