# SPDX-License-Identifier: Apache-2.0
"""Makes the same calls, message by message, to a Thalweg server and to TensorFlow's, and compares the answers.

Random names (handles, incarnations) and TensorFlow's longer explanations may differ.
"""

import os
import re
import subprocess
import sys
import unittest

import grpc
import tensorflow.compat.v1 as tf
from google.protobuf import descriptor_pool, message_factory
from ports import free_ports
from tensorflow_testlib import PROGRAM, load_descriptors

SERVE = """
import sys, tensorflow as tf
config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
server = tf.distribute.Server({"local": ["localhost:" + sys.argv[1]]}, job_name="local", task_index=0, config=config)
print("ready", flush=True)
sys.stdin.read()
"""

POOL = descriptor_pool.DescriptorPool()  # apart from TensorFlow's own messages of the same names
for file in load_descriptors(["thalweg/proto/master.proto", "thalweg/proto/worker.proto"]):
    POOL.Add(file)


def message(name):
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName("tensorflow." + name))


def graph_def(build):
    with tf.Graph().as_default() as graph:
        build()
        return message("GraphDef").FromString(graph.as_graph_def().SerializeToString())


def program():
    a = tf.placeholder(tf.float32, [], name="a")
    tf.add(a, 1.0, name="b")
    v = tf.Variable(tf.zeros([2]), name="v", use_resource=False)
    tf.assign(v, [1.0, 2.0], name="set")
    tf.reshape(tf.identity(v.value(), name="two"), tf.placeholder_with_default([3], None), name="r")


def tensor(value):
    return message("TensorProto").FromString(tf.make_tensor_proto(value).SerializeToString())


class Server:
    """A server of one task with two CPUs, and the calls to it."""

    def __init__(self, command):
        (port,) = free_ports(1)
        self.process = subprocess.Popen(command(port), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.process.stdout.readline()
        self.target = "grpc://localhost:%d" % port
        self.channel = grpc.insecure_channel("localhost:%d" % port)
        self.names = {}

    def call(self, service, method, request):
        """(code, text, response or None)."""
        rpc = self.channel.unary_unary("/tensorflow.%sService/%s" % (service, method),
                                       request_serializer=lambda m: m.SerializeToString(),
                                       response_deserializer=message(method + "Response").FromString)
        try:
            return "OK", "", rpc(request, timeout=60)
        except grpc.RpcError as e:
            return e.code().name, e.details(), None

    def close(self):
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def normal(text):
    """Removes random values and Thalweg's own fields."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "HANDLE", text)
    text = re.sub(r"incarnation: \d+", "incarnation: N", text)
    text = re.sub(r"(Op type not registered '\w+').*", r"\1", text, flags=re.S)
    return text


class ProtocolTest(unittest.TestCase):
    """All calls of the test go to the same two servers, in this order."""

    @classmethod
    def setUpClass(cls):
        cls.servers = [
            Server(lambda port: [PROGRAM, "server", "--cluster=local|localhost:%d" % port, "--cpus=2"]),
            Server(lambda port: [sys.executable, "-c", SERVE, str(port)])]

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers:
            server.close()

    def both(self, service, method, make, texts=True):
        """Calls both. `make` gets the server and returns the request. Compares codes, texts and what `RunStep` says in
        its body; returns both responses."""
        answers = [server.call(service, method, make(server)) for server in self.servers]
        (ours, our_text, our_response), (theirs, their_text, their_response) = answers
        what = "%s %s" % (method, str(make(self.servers[1]))[:200])
        self.assertEqual(ours, theirs, "%s: ours %r, TensorFlow's %r" % (what, our_text, their_text))
        if texts:
            self.assertEqual(normal(our_text), normal(their_text), what)
        if our_response is not None and hasattr(our_response, "status_code"):
            self.assertEqual(our_response.status_code, their_response.status_code, what)
            self.assertEqual(normal(our_response.status_error_message), normal(their_response.status_error_message))
        return our_response, their_response

    def open_session(self):
        definition = graph_def(program)
        responses = self.both("Master", "CreateSession", lambda s: message("CreateSessionRequest")(
            graph_def=definition, target=s.target))
        for server, response in zip(self.servers, responses):
            server.session = response.session_handle
            self.assertRegex(server.session, "^[0-9a-f]{16}$")

    def run_step(self, **kwargs):
        kwargs.setdefault("session_handle", None)
        handle = kwargs.pop("session_handle")
        feeds = kwargs.pop("feeds", {})
        texts = kwargs.pop("texts", True)

        def make(server):
            request = message("RunStepRequest")(session_handle=handle or server.session, **kwargs)
            for name, value in feeds.items():
                request.feed.add(name=name).tensor.CopyFrom(tensor(value))
            return request
        return self.both("Master", "RunStep", make, texts)

    def test_a_conversation(self):
        self.open_session()
        ours, theirs = self.both("Master", "ListDevices",
                                 lambda s: message("ListDevicesRequest")(session_handle=s.session))
        self.assertEqual([(d.name, d.device_type) for d in ours.local_device],
                         [(d.name, d.device_type) for d in theirs.local_device])
        self.both("Master", "ListDevices", lambda s: message("ListDevicesRequest")(session_handle="nope"))

        with self.subTest("steps"):
            self.run_step(session_handle="nope", fetch=["b:0"])
            self.run_step()
            self.run_step(fetch=["zz:0"])
            self.run_step(fetch=["b:3"])
            self.run_step(target=["zz"])
            self.run_step(fetch=["b:0"])
            for in_body in (False, True):
                self.run_step(fetch=["r:0"], store_errors_in_response_body=in_body)
                self.run_step(fetch=["v:0"], store_errors_in_response_body=in_body)
            self.run_step(target=["set"])
            self.run_step(fetch=["r:0"], store_errors_in_response_body=True)
            self.run_step(fetch=["b:0"], feeds={"nonode:0": 1.0})
            self.run_step(fetch=["b:0"], feeds={"a:0": 1})
            ours, theirs = self.run_step(fetch=["b:0", "v:0"], feeds={"a:0": 2.0})
            for mine, yours in zip(ours.tensor, theirs.tensor):
                self.assertEqual(mine.name, yours.name)
                self.assertEqual(tf.make_ndarray(tf.make_tensor_proto(0).FromString(mine.tensor.SerializeToString()))
                                 .tolist(),
                                 tf.make_ndarray(tf.make_tensor_proto(0).FromString(yours.tensor.SerializeToString()))
                                 .tolist())

        with self.subTest("extensions"):
            def extend(version, *nodes):
                def make(server):
                    request = message("ExtendSessionRequest")(session_handle=server.session,
                                                              current_graph_version=version)
                    for name, op, *inputs in nodes:
                        request.graph_def.node.add(name=name, op=op, input=inputs)
                    request.graph_def.versions.producer = 1645
                    return request
                return make
            self.both("Master", "ExtendSession", extend(7, ("n", "NoOp")))
            self.both("Master", "ExtendSession", extend(0, ("a", "NoOp")))
            self.both("Master", "ExtendSession", extend(0, ("y", "NoOp", "^x2")))
            ours, theirs = self.both("Master", "ExtendSession", extend(0, ("x", "NoOp")))
            self.assertEqual(ours.new_graph_version, theirs.new_graph_version)
            self.both("Master", "ExtendSession", extend(0, ("x3", "NoOp")))

        with self.subTest("callables"):
            def make_callable(**kwargs):
                return lambda s: message("MakeCallableRequest")(
                    session_handle=s.session, options=message("CallableOptions")(**kwargs))
            self.both("Master", "MakeCallable", make_callable())
            responses = self.both("Master", "MakeCallable", make_callable(feed=["a:0"], fetch=["b:0"]))
            for server, response in zip(self.servers, responses):
                server.callable = response.handle
            ours, theirs = self.both("Master", "RunCallable", lambda s: message("RunCallableRequest")(
                session_handle=s.session, handle=s.callable, feed=[tensor(2.0)]))
            self.assertEqual(ours.fetch[0].dtype, theirs.fetch[0].dtype)
            self.both("Master", "RunCallable", lambda s: message("RunCallableRequest")(
                session_handle=s.session, handle=999))
            self.both("Master", "ReleaseCallable", lambda s: message("ReleaseCallableRequest")(
                session_handle=s.session, handle=s.callable))

        with self.subTest("partial runs"):
            responses = self.both("Master", "PartialRunSetup", lambda s: message("PartialRunSetupRequest")(
                session_handle=s.session, feed=["a:0"], fetch=["b:0"]))
            self.assertTrue(all(r.partial_run_handle for r in responses))
            for server, response in zip(self.servers, responses):
                server.partial = response.partial_run_handle
            self.both("Master", "RunStep", lambda s: message("RunStepRequest")(
                session_handle=s.session, partial_run_handle=s.partial, fetch=["v:0"]))
            self.run_step(partial_run_handle="nothing", fetch=["b:0"])

        with self.subTest("workers"):
            ours, theirs = self.both("Worker", "GetStatus", lambda s: message("GetStatusRequest")())
            self.assertEqual([d.name for d in ours.device_attributes], [d.name for d in theirs.device_attributes])
            self.both("Worker", "RunGraph", lambda s: message("RunGraphRequest")(
                session_handle="zz", graph_handle="y", create_worker_session_called=True))
            self.both("Worker", "RunGraph", lambda s: message("RunGraphRequest")(graph_handle="y"))
            self.both("Worker", "RegisterGraph", lambda s: message("RegisterGraphRequest")(
                session_handle="zz", create_worker_session_called=True))
            self.both("Worker", "RecvTensor", lambda s: message("RecvTensorRequest")(step_id=1, rendezvous_key="a"))
            self.both("Worker", "DeleteWorkerSession", lambda s: message("DeleteWorkerSessionRequest")(
                session_handle="zz"))
            self.both("Worker", "Logging", lambda s: message("LoggingRequest")())
            self.both("Worker", "CleanupGraph", lambda s: message("CleanupGraphRequest")(step_id=1))

        with self.subTest("the end"):
            self.both("Master", "CreateSession", lambda s: message("CreateSessionRequest")(
                target=s.target, config=message("ConfigProto")(session_inter_op_thread_pool=[{"num_threads": 2}])))
            self.both("Master", "CloseSession", lambda s: message("CloseSessionRequest")(session_handle=s.session))
            self.both("Master", "CloseSession", lambda s: message("CloseSessionRequest")(session_handle=s.session))
            self.run_step(fetch=["b:0"])
            self.both("Master", "Reset", lambda s: message("ResetRequest")())


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    unittest.main()
