# SPDX-License-Identifier: Apache-2.0
"""Servers as processes that live as long as the script that made them.

A script that ends says so to its servers, which tell the other tasks: a parameter server that waits in join()
ends when all workers have ended well, and synchronous training does not wait forever for a worker that failed. The servers serve until the process is gone, since sessions are closed last of all.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import thalweg_functions
from thalweg_script_end import when_script_ends

# TensorFlow's Coordinator grants threads this long to end before the session is closed, which ends them at once.
_TENSORFLOW_GRACE_SECONDS = 120
_GRACE_SECONDS = 5
_QUEUE_RUNNER_GRACE_SECONDS = 1
# TensorFlow's workers look every 30 s whether the chief has initialized the variables, so that most lose 30 s.
_TENSORFLOW_LOOK_SECONDS = 30
_LOOK_SECONDS = 2
# TensorFlow creates the session of a lost parameter server again and again without a pause.
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2
_ORPHAN_CODE = 132  # the exit code of a server that no worker needs any more
_ANSWER_SECONDS = 15  # how long a server may take to tell the other tasks, or to leave


def _log(text):
    sys.stderr.write("thalweg: %s\n" % text)
    sys.stderr.flush()


def _keeps_tensorflow_semantics():
    return bool(os.environ.get("THALWEG_KEEP_TENSORFLOW_SEMANTICS"))


class ServerProcess:
    """One `thalweg server`. Its log comes through on stderr; it ends when this object, or this process, does."""

    def __init__(self, server_def, package, cpus=1):
        self._stopping = False
        self._failure = None
        self._code = 0  # what join() returns
        self._announced = threading.Event()
        self._joined = threading.Event()
        self.target = None
        # The server ends when nobody holds the writing end any more: when this process does, however that happens.
        lifeline, self._lifeline = os.pipe()
        own_end, channel = thalweg_functions.make_pair()
        try:
            self._process = subprocess.Popen(
                self._command(cpus, lifeline, channel.fileno()), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                pass_fds=(lifeline, channel.fileno()))
        finally:
            os.close(lifeline)
            channel.close()
        self._functions = thalweg_functions.FunctionServer(own_end, package)
        self._process.stdin.write(server_def.SerializeToString())
        self._process.stdin.close()
        self._read_start()
        threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def _command(cpus, lifeline, channel):
        command = [os.environ["THALWEG_BINARY"], "server", "--server_def=-", "--cpus=%d" % cpus,
                   "--lifeline=%d" % lifeline, "--script_channel=%d" % channel]
        for flag in ("orphan_after", "orphan_checkpoint", "failed_after", "log_format", "minloglevel", "v"):
            value = os.environ.get("THALWEG_" + flag.upper())
            if value:
                command.append("--%s=%s" % (flag, value))
        if _keeps_tensorflow_semantics():
            command.append("--keep_tensorflow_semantics")
        return command

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
            text = line.decode("utf-8", "replace").rstrip()
            if text == "Announced":
                self._announced.set()
            elif text in ("Joined", "Orphaned"):
                self._code = 0 if text == "Joined" else _ORPHAN_CODE
                self._joined.set()
            else:
                _log(text)
        code = self._process.wait()
        if not self._stopping:
            self._end_script(code)
        self._announced.set()
        self._joined.set()

    def _end_script(self, code):
        """The server has crashed. TensorFlow's would have taken the script with it; its sessions would wait for ever."""
        _log("the server at %s has ended, %s, and so does the script" % (
            self.target, "with code %d" % code if code >= 0 else "by signal %d" % -code))
        sys.stdout.flush()
        os._exit(128 - code if code < 0 else code or 1)

    def _tell(self, word):
        try:
            os.write(self._lifeline, word)
        except OSError:
            pass  # it has ended

    def join(self):
        """Waits for the end of the job; returns 0, or _ORPHAN_CODE if there is nobody to wait for."""
        if not _keeps_tensorflow_semantics():
            self._tell(b"J")
        try:
            self._joined.wait()
        except KeyboardInterrupt:
            self._leave()
            raise
        return self._code

    def _leave(self):
        """Workers that were interrupted at the same time can save what this server holds."""
        self._stopping = True
        self._tell(b"L")
        try:
            self._process.wait(timeout=_ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def tell_stop_step(self, step):
        """The global step at which the script stops."""
        self._tell(b"S%d\n" % step)

    def send_signal(self, number):
        self._process.send_signal(number)

    def start_announcing(self, ended_well):
        """The script's work is done, or it fails, and the other tasks are told. It serves on."""
        self._tell(b"D" if ended_well else b"F")

    def finish_announcing(self):
        """Returns when they know. What ends this process (a container, say) may end the server with it."""
        self._stopping = True
        self._announced.wait(_ANSWER_SECONDS)

    def let_go(self):
        """In a forked process: the server belongs to the other one."""
        self._close_lifeline()
        self._functions.let_go()

    def _close_lifeline(self):
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def stop(self):
        """Ends it."""
        if self._stopping:
            return
        self._stopping = True
        self._functions.stop()
        self._tell(b"Q")  # the script goes on: it was not killed
        self._close_lifeline()
        try:
            self._process.wait(timeout=_ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


_running = set()
_released = set()  # servers whose tf.train.Server is gone: they serve until the script ends or makes new ones


def _end_all(ended_well):
    """The other tasks give one that failed some time to be started again."""
    if not ended_well and _keeps_tensorflow_semantics():
        return
    processes = list(_running)
    for process in processes:
        process.start_announcing(ended_well)
    for process in processes:
        process.finish_announcing()


def _let_go_of_all():
    for process in list(_running):
        process.let_go()
    _running.clear()
    _released.clear()


os.register_at_fork(after_in_child=_let_go_of_all)


def _start(module, server_def, cpus=1):
    package = module.__name__.split(".")[0]
    while _released:
        process = _released.pop()
        _running.discard(process)
        process.stop()
    process = ServerProcess(server_def, package, cpus)
    if process.failure:
        code, message = process.failure
        errors = _errors_of(package)
        raise errors.exception_type_from_error_code(getattr(errors, code))(None, None, message)
    when_script_ends(_end_all)
    _dump_on_signal()
    _running.add(process)
    return process


def _errors_of(package):
    # Imported late: this file is loaded while TensorFlow is.
    return __import__(package + ".python.framework.errors_impl", fromlist=["errors_impl"])


def patch_server_class(module):
    """Gives tf.train.Server methods that start and watch a process."""

    def init(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None, config=None, start=True):
        self._server_def = module._make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        cpus = max(1, self._server_def.default_session_config.device_count.get("CPU", 1))
        self._server = _start(module, self._server_def, cpus)

    def delete(self):
        server = getattr(self, "_server", None)
        if server is not None:
            _released.add(server)

    def join(self):
        # TensorFlow's never returns, so scripts go on with a worker's code after it: the script ends here when the job
        # does. An orphan's code is for launchers, as in programs without Python; the server has said why.
        sys.exit(self._server.join())

    module.Server.__init__ = init
    module.Server.__del__ = delete
    module.Server.start = lambda self: None  # it listens since it was made
    module.Server.join = join
    module.Server.target = property(lambda self: self._server.target)


def patch_stop_hook_class(module):
    """Tells the servers at which step the script stops, for the time left in the job's status."""
    original = module.StopAtStepHook.after_create_session

    def after_create_session(self, session, coord):
        original(self, session, coord)
        for process in list(_running):
            process.tell_stop_step(self._last_step)

    module.StopAtStepHook.after_create_session = after_create_session


def _dump_on_signal():
    """SIGUSR1 makes the servers write their flight recorders, also while the script waits in a step.

    Python runs handlers between two instructions of the main thread, which may be far away. The number of the signal
    comes through the pipe at once.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL:
        return
    numbers, write_end = os.pipe()
    os.set_blocking(write_end, False)
    before = signal.set_wakeup_fd(write_end)
    if before != -1:  # the script has its own
        signal.set_wakeup_fd(before)
        os.close(numbers)
        os.close(write_end)
        return
    signal.signal(signal.SIGUSR1, lambda number, frame: None)

    def forward():
        while True:
            if signal.SIGUSR1 in os.read(numbers, 64):
                for process in list(_running):
                    process.send_signal(signal.SIGUSR1)

    threading.Thread(target=forward, daemon=True).start()


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
                    servers[cpus] = _start(module, server_def, cpus)
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
    """Does not wait two minutes for threads that only the end of the session ends.

    Queue runners are left alone once their queues were closed: nobody needs the elements that they still make. A step
    of theirs that waits for something else, such as gradients, ends with the session.
    """
    if _keeps_tensorflow_semantics():
        return
    original, original_request_stop = module.Coordinator.join, module.Coordinator.request_stop
    said = []

    def say_grace():
        if not said:
            said.append(True)
            _log("threads have %d s to end before their session is closed (TensorFlow's default: %d s)" % (
                _GRACE_SECONDS, _TENSORFLOW_GRACE_SECONDS))

    def queue_runners(self, threads):
        with self._lock:
            everybody = self._registered_threads.union(threads or ())
        return everybody, {t for t in everybody if t.name.startswith("QueueRunnerThread-") and t.is_alive()}

    def join(self, threads=None, stop_grace_period_secs=_TENSORFLOW_GRACE_SECONDS, ignore_live_threads=False):
        everybody, runners = queue_runners(self, threads)
        while any(t.is_alive() for t in everybody) and not self.wait_for_stop(1.0):
            pass
        end = time.monotonic() + min(_QUEUE_RUNNER_GRACE_SECONDS, stop_grace_period_secs)
        for runner in runners:
            runner.join(max(0, end - time.monotonic()))
        left_alone = {t for t in runners if t.is_alive()}
        self._thalweg_left_alone = left_alone.union(getattr(self, "_thalweg_left_alone", ()))  # some scripts stop twice
        with self._lock:
            self._registered_threads -= left_alone
        others = everybody - left_alone
        if stop_grace_period_secs == _TENSORFLOW_GRACE_SECONDS:
            stop_grace_period_secs = _GRACE_SECONDS
            if any(t.is_alive() for t in others):
                say_grace()
        return original(self, others, stop_grace_period_secs, ignore_live_threads)

    def request_stop(self, ex=None):
        if threading.current_thread() not in getattr(self, "_thalweg_left_alone", ()):
            original_request_stop(self, ex)

    module.Coordinator.join = join
    module.Coordinator.request_stop = request_stop


def patch_session_manager_class(module):
    """Lets workers start soon after the chief, unless the script says how often they look for the variables."""
    if _keeps_tensorflow_semantics():
        return
    original = module.SessionManager.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if self._recovery_wait_secs == _TENSORFLOW_LOOK_SECONDS:
            self._recovery_wait_secs = _LOOK_SECONDS

    module.SessionManager.__init__ = init


class _PatientSessionCreator:
    """Repeats another session creator until its session works, with a growing pause. Only the first try logs."""

    def __init__(self, creator, module):
        self._creator, self._module = creator, module

    def create_session(self):
        pause, tries = _FIRST_PAUSE_SECONDS, 1
        while True:
            try:
                session = self._create(quietly=tries > 1)
                if tries > 1:
                    _log("a new session works, after %d tries" % tries)
                return session
            except self._module._PREEMPTION_ERRORS as error:
                if tries == 1:
                    _log("a session could not be created, and is tried again until it works: %s" % error)
            time.sleep(pause)
            pause, tries = min(2 * pause, _LONGEST_PAUSE_SECONDS), tries + 1

    def _create(self, quietly):
        if not quietly:
            return self._creator.create_session()
        logging = self._module.logging
        verbosity = logging.get_verbosity()
        logging.set_verbosity(max(verbosity, logging.WARN))
        try:
            return self._creator.create_session()
        finally:
            logging.set_verbosity(verbosity)


def patch_recoverable_session_class(module):
    """Pauses between the tries of a MonitoredSession to replace a session whose parameter server was lost."""
    if _keeps_tensorflow_semantics():
        return
    original = module._RecoverableSession.__init__

    def init(self, sess_creator):
        original(self, _PatientSessionCreator(sess_creator, module))

    module._RecoverableSession.__init__ = init
