# SPDX-License-Identifier: Apache-2.0
"""Lets a server call Python functions of the script: those of tf.py_func, tf.numpy_function and tf.py_function.

In TensorFlow the server lives in the script's process and calls them directly. Here it asks for them over sockets that
only the two processes have. The format of the messages is in thalweg/server/script_message.h.
"""

import array
import mmap
import os
import socket
import struct
import sys
import threading
import time
import traceback
import weakref

_HEAD = struct.Struct("<Q")
_RECORD = struct.Struct("<IIII")  # eager or code, repeat or memory in use, bytes of text, tensors
_TENSOR = struct.Struct("<II")  # type, rank
_OFFSET = struct.Struct("<Q")
_STRING = 7  # DT_STRING
_IN_MEMORY = 1 << 31  # added to the type of a tensor in shared memory
_FIRST_BYTES = 1 << 12  # most calls are not longer
_JOINED_BYTES = 1 << 16  # results that are not longer go out as one piece
_IN_MEMORY_BYTES = 1 << 16  # the least that goes into shared memory
_MOST_KEPT_MEMORY = 1 << 26
_RIGHTS = socket.CMSG_SPACE(array.array("i").itemsize)  # room for a file descriptor
# A repeated call stops when its results have become larger than this, or have taken longer.
_MOST_REPEATED_BYTES = 1 << 20
_MOST_REPEATED_SECONDS = 0.05


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


class _Memory:
    """Memory that a connection shares with the server: large inputs, and large results behind them."""

    def __init__(self, file):
        self.size = os.fstat(file).st_size
        self._map = memoryview(mmap.mmap(file, self.size))
        self._inputs = []
        self.end = 0  # end of the bytes that the current call has put there

    def take(self, offset, size):
        """The array of bytes at a place in the memory."""
        import numpy as np
        array = np.asarray(self._map[offset:offset + size])
        self._inputs.append(weakref.ref(array))
        self.end = max(self.end, _aligned(offset + size))
        return array

    def put(self, content):
        """Copies bytes there, and returns their offset, or None if there is no room."""
        offset = self.end
        if offset + len(content) > self.size:
            return None
        self._map[offset:offset + len(content)] = content
        self.end = _aligned(offset + len(content))
        return offset

    def release(self):
        """Frees it for the next call. False if the program still refers to it, such as a function that kept its input."""
        free = all(array() is None for array in self._inputs)  # views of an array refer to it
        self._inputs, self.end = [], 0
        return free


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
        while True:
            data, file = _receive_first(self._control, 1)
            if not data:
                return
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=file)
            self._connections.append(connection)
            self._start_thread(self._serve, connection)

    def _serve(self, connection):
        memory = None
        try:
            while True:
                message, file = _receive(connection)
                if file is not None:
                    memory = _Memory(file)
                    os.close(file)
                if message is None:
                    return
                records = self._answers(_Reader(message), memory)
                # The arguments of the function and its results are gone, unless the program keeps them.
                if memory is not None and not (memory.release() and memory.size <= _MOST_KEPT_MEMORY):
                    memory, records[-1].memory_used = None, True
                _send(connection, [part for record in records for part in record.encoded()])
                del message, records  # the arrays of a large call
        except OSError:
            return  # the server has gone
        finally:
            connection.close()  # the server notices, should it be there

    def _answers(self, request, memory):
        """The result of the call, and of its repetitions."""
        eager, repeat, token_size, n = request.unpack(_RECORD)
        try:
            token = bytes(request.take(token_size)).decode("utf-8")
            inputs = [self._read_tensor(request, memory) for _ in range(n)]
        except BaseException as error:  # whatever it is, it is the step that fails
            return [_Record.of(error)]
        if repeat <= 1:
            return [self._answer(eager, token, inputs, memory)]
        records, size, start = [], 0, time.perf_counter()
        while len(records) < repeat and size + (memory.end if memory else 0) < _MOST_REPEATED_BYTES:
            records.append(self._answer(eager, token, [value.copy() for value in inputs], memory))
            size += sum(map(len, records[-1].parts))
            if records[-1].code or time.perf_counter() - start > _MOST_REPEATED_SECONDS:
                break
        return records

    def _answer(self, eager, token, inputs, memory):
        try:
            outputs = (self._call_eagerly if eager else self._call)(token, inputs)
            return _Record(0, b"", len(outputs), [part for value in outputs for part in self._parts(value, memory)])
        except BaseException as error:
            return _Record.of(error)

    def _module(self, name):
        return sys.modules[self._package + ".python." + name]

    def _read_tensor(self, request, memory):
        import numpy as np
        number, rank = request.unpack(_TENSOR)
        in_memory, number = number & _IN_MEMORY, number & ~_IN_MEMORY
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
        size = count * dtype.itemsize
        if in_memory:
            offset, = request.unpack(_OFFSET)
            return memory.take(offset, size).view(dtype).reshape(shape)
        return np.frombuffer(request.take(size), dtype).reshape(shape)

    def _parts(self, value, memory):
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
            if memory is not None and value.nbytes >= _IN_MEMORY_BYTES:
                offset = memory.put(elements[0])
                if offset is not None:
                    number, elements = number | _IN_MEMORY, [_OFFSET.pack(offset)]
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


class _Record:
    """The result of one call: an error, or tensors."""

    def __init__(self, code, text, tensors, parts):
        self.code, self.text, self.tensors, self.parts = code, text, tensors, parts
        self.memory_used = False

    @classmethod
    def of(cls, error):
        return cls(_code_of(error), _describe(error).encode("utf-8", "replace"), 0, [])

    def encoded(self):
        head = _RECORD.pack(self.code, self.memory_used, len(self.text), self.tensors)
        return [head, self.text] + self.parts


def _aligned(size):
    return (size + 63) & ~63


def _receive_first(connection, size):
    """Some bytes, and the file that came with them or None."""
    data, rights, _, _ = connection.recvmsg(size, _RIGHTS, socket.MSG_CMSG_CLOEXEC)
    if not rights:
        return data, None
    files = array.array("i")
    files.frombytes(rights[0][2][:files.itemsize])
    return data, files[0]


def _receive(connection):
    """One message, or None at the end, and the file that came with it. Arrays that functions get can be written to, and
    so can the message."""
    first, file = _receive_first(connection, _FIRST_BYTES)
    while 0 < len(first) < _HEAD.size:
        more = connection.recv(_FIRST_BYTES)
        first = first + more if more else b""
    if not first:
        return None, file
    message = bytearray(_HEAD.unpack_from(first)[0])
    done = len(first) - _HEAD.size
    message[:done] = first[_HEAD.size:]
    view = memoryview(message)
    while done < len(message):
        n = connection.recv_into(view[done:])
        if n == 0:
            return None, file
        done += n
    return message, file


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
