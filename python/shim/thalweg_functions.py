# SPDX-License-Identifier: Apache-2.0
"""Lets a server call Python functions of the script: those of tf.py_func, tf.numpy_function and tf.py_function.

In TensorFlow the server lives in the script's process and calls them directly. Here it asks for them over sockets that
only the two processes have. The format of the messages is in thalweg/server/script_message.h.
"""

import array
import socket
import struct
import sys
import threading
import traceback

_HEAD = struct.Struct("<Q")
_MESSAGE = struct.Struct("<III")  # eager or code, bytes of text, tensors
_TENSOR = struct.Struct("<II")  # type, rank
_STRING = 7  # DT_STRING
_FIRST_BYTES = 1 << 12  # most calls are not longer
_JOINED_BYTES = 1 << 16  # results that are not longer go out as one piece


class UnsupportedResult(Exception):
    """The function has returned something that no tensor can hold."""


# The error code of each exception of a function, as in TensorFlow. The first that matches counts.
_CODES = (
    (UnsupportedResult, 13),  # INTERNAL
    (ValueError, 3),  # INVALID_ARGUMENT
    (TypeError, 3),
    (StopIteration, 11),  # OUT_OF_RANGE
    (MemoryError, 8),  # RESOURCE_EXHAUSTED
    (NotImplementedError, 12),  # UNIMPLEMENTED
)
_UNKNOWN = 2


class _Reader:
    """Takes the parts of a message, front to back."""

    def __init__(self, message):
        self._message, self._offset = memoryview(message), 0

    def unpack(self, layout):
        values = layout.unpack_from(self._message, self._offset)
        self._offset += layout.size
        return values

    def take(self, size):
        self._offset += size
        return self._message[self._offset - size:self._offset]


class FunctionServer:
    """Answers the calls of one server. The server hands over a connection for every call that runs at a time."""

    def __init__(self, control, package):
        self._control = control
        self._package = package  # of TensorFlow: tensorflow_core in TensorFlow 1.15
        self._connections = [control]
        self._numpy_types, self._types = {}, {}  # by number, and the other way round
        self._start_thread(self._accept)

    def let_go(self):
        """In a forked process, which has none of the threads: the connections belong to the other one."""
        for connection in self._connections:
            connection.close()

    def stop(self):
        """Ends the connection, and the threads with it."""
        try:
            self._control.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the server has gone already

    @staticmethod
    def _start_thread(target, *args):
        threading.Thread(target=target, args=args, name="thalweg functions", daemon=True).start()

    def _accept(self):
        size = array.array("i").itemsize
        while True:
            data, rights, _, _ = self._control.recvmsg(1, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
            if not data:
                return
            for _, _, content in rights:
                files = array.array("i")
                files.frombytes(content[:size])
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=files[0])
                self._connections.append(connection)
                self._start_thread(self._serve, connection)

    def _serve(self, connection):
        try:
            while True:
                message = _receive(connection)
                if message is None:
                    return
                _send(connection, self._answer(_Reader(message)))
                del message  # the arrays of a large call
        except OSError:
            return  # the server has gone

    def _answer(self, request):
        eager, token_size, n = request.unpack(_MESSAGE)
        try:
            token = bytes(request.take(token_size)).decode("utf-8")
            inputs = [self._read_tensor(request) for _ in range(n)]
            outputs = (self._call_eagerly if eager else self._call)(token, inputs)
            parts = [part for output in outputs for part in self._tensor_parts(output)]
            return [_MESSAGE.pack(0, 0, len(outputs))] + parts
        except BaseException as error:  # whatever it is, it is the step that fails
            text = _describe(error).encode("utf-8", "replace")
            return [_MESSAGE.pack(_code_of(error), len(text), 0), text]

    def _module(self, name):
        return sys.modules[self._package + ".python." + name]

    def _read_tensor(self, request):
        import numpy as np
        number, rank = request.unpack(_TENSOR)
        shape = request.unpack(struct.Struct("<%dq" % rank)) if rank else ()
        count = 1
        for size in shape:
            count *= size
        if number == _STRING:
            strings = np.empty(count, dtype=object)
            lengths = request.unpack(struct.Struct("<%dQ" % count))
            for i, length in enumerate(lengths):
                strings[i] = bytes(request.take(length))
            return strings.reshape(shape)
        dtype = self._numpy_types.get(number)
        if dtype is None:
            dtype = np.dtype(self._module("framework.dtypes").as_dtype(number).as_numpy_dtype)
            self._numpy_types[number] = dtype
        return np.frombuffer(request.take(count * dtype.itemsize), dtype).reshape(shape)

    def _tensor_parts(self, value):
        import numpy as np
        value = np.asarray(value, order="C")
        if value.dtype.kind in "OSU":
            strings = [_to_bytes(element) for element in value.reshape(-1).tolist()]
            number, elements = _STRING, [struct.pack("<%dQ" % len(strings), *map(len, strings))] + strings
        else:
            if not value.dtype.isnative:
                value = value.astype(value.dtype.newbyteorder("="))
            number = self._types.get(value.dtype)
            if number is None:
                try:
                    number = self._module("framework.dtypes").as_dtype(value.dtype).as_datatype_enum
                except TypeError:
                    raise UnsupportedResult("Unsupported numpy data type %s" % value.dtype) from None
                self._types[value.dtype] = number
            elements = [memoryview(value.reshape(-1).view(np.uint8))] if value.size else []
        return [_TENSOR.pack(number, value.ndim) + struct.pack("<%dq" % value.ndim, *value.shape)] + elements

    def _call(self, token, inputs):
        import numpy as np
        arguments = [value if value.ndim else value[()] for value in inputs]  # scalars are numbers, not arrays
        results = self._module("ops.script_ops")._py_funcs(token, None, arguments)
        if isinstance(results, list):
            return results
        nothing = isinstance(results, np.ndarray) and results.dtype == object and not results.ndim
        return [] if nothing and results[()] is None else [results]

    def _call_eagerly(self, token, inputs):
        with self._module("eager.context").eager_mode():
            constant = self._module("framework.constant_op").constant
            dtypes = self._module("framework.dtypes")
            arguments = [constant(value, dtypes.string if value.dtype == object else dtypes.as_dtype(value.dtype))
                         for value in inputs]
            results = self._module("ops.script_ops")._py_funcs(token, None, arguments)
            if results is None:
                return []
            return [result.numpy() for result in (results if isinstance(results, list) else [results])]


def _receive(connection):
    """One message, or None at the end. It can be written to, as arrays that functions get can."""
    first = connection.recv(_FIRST_BYTES)
    while 0 < len(first) < _HEAD.size:
        more = connection.recv(_FIRST_BYTES)
        first = first + more if more else b""
    if not first:
        return None
    message = bytearray(_HEAD.unpack_from(first)[0])
    done = len(first) - _HEAD.size
    message[:done] = first[_HEAD.size:]
    view = memoryview(message)
    while done < len(message):
        n = connection.recv_into(view[done:])
        if n == 0:
            return None
        done += n
    return message


def _send(connection, buffers):
    size = sum(len(buffer) for buffer in buffers)
    buffers = [_HEAD.pack(size)] + buffers
    if size < _JOINED_BYTES:
        connection.sendall(b"".join(buffers))
        return
    for buffer in buffers:
        connection.sendall(buffer)


def _to_bytes(element):
    if isinstance(element, bytes):
        return element
    if isinstance(element, str):
        return element.encode("utf-8")
    raise UnsupportedResult("Unsupported object type %s" % type(element).__name__)


def _code_of(error):
    return next((code for kind, code in _CODES if isinstance(error, kind)), _UNKNOWN)


def _describe(error):
    """Name and text of the exception, and its traceback without the frames of this file."""
    if isinstance(error, UnsupportedResult):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "%s: %s\n%s" % (type(error).__name__, error, "".join(traceback.format_exception(type(error), error, trace)))


def make_pair():
    """The script's end of a new connection, and the server's, which the caller closes when the server has it."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
