# SPDX-License-Identifier: Apache-2.0
"""Looks at the status page of real jobs in a real browser (headless Chromium).

    tests/observe/page_test.py                 runs the tests
    tests/observe/page_test.py --pictures DIR  writes the screenshots of docs/observing.md
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from observe_test import THALWEG, Job, wait_for  # noqa: E402
from ports import free_ports  # noqa: E402


class Browser:
    """One page in Chromium, driven by its DevTools protocol over a pair of pipes."""

    def __init__(self, url, width=1200, height=900, phone=False):
        self.profile = tempfile.mkdtemp()
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()

        def use_pipes():  # Chromium expects them as descriptors 3 and 4
            commands, answers = os.dup(read_commands), os.dup(write_answers)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--user-data-dir=" + self.profile, "--remote-debugging-pipe", "about:blank"],
            preexec_fn=use_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_commands)
        os.close(write_answers)
        self._buffer, self._last, self._session = b"", 0, None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Page.navigate", url=url)

    def call(self, method, **parameters):
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                more = os.read(self._answers, 1 << 16)
                if not more:
                    raise AssertionError("the browser has ended")
                self._buffer += more
            text, self._buffer = self._buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise AssertionError(answer["error"])
                return answer["result"]

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def text(self, selector):
        return self.run("(document.querySelector(%s) || {}).innerText || ''" % json.dumps(selector))

    def picture(self, path):
        size = self.run("({width: innerWidth, height: document.documentElement.scrollHeight})")
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "scale": 1, **size})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._commands)
        os.close(self._answers)
        shutil.rmtree(self.profile, ignore_errors=True)


class ManyServers:
    """A cluster of 4 parameter servers and 60 workers without a program."""

    def __init__(self):
        *ports, port = free_ports(65)
        hosts = ["localhost:%d" % p for p in ports]
        cluster = "ps|%s,worker|%s" % (";".join(hosts[:4]), ";".join(hosts[4:]))
        self.page = "http://localhost:%d/" % port
        self.processes = []
        for i in range(64):
            job, index = ("ps", i) if i < 4 else ("worker", i - 4)
            self.processes.append(subprocess.Popen(
                [THALWEG, "server", "--cluster", cluster, "--job_name", job, "--task_index", str(index), "--forever",
                 "--http", "localhost:%d" % (port if i == 0 else 0)], stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True))
        for process in self.processes:
            if not process.stdout.readline():  # it listens
                raise AssertionError("%s ended at its start" % process.args)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


ROWS = "document.querySelectorAll('#tasks tbody tr').length"


def number(text):
    digits = text.replace(",", "")
    return float(digits) if digits not in ("", "-") else 0


class PageTest(unittest.TestCase):
    def servers_page(self, *flags):
        """The page of a task without others."""
        port, http = free_ports(2)
        server = subprocess.Popen(
            [THALWEG, "server", "--cluster", "worker|localhost:%d" % port, "--forever", "--http", "localhost:%d" % http, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        server.stdout.readline()  # it listens
        return "http://localhost:%d/" % http

    def open(self, *args, **kwargs):
        browser = Browser(*args, **kwargs)
        self.addCleanup(browser.close)
        return browser

    def test_a_job_that_trains_and_a_worker_that_stops(self):
        job = Job("--is_sync")
        self.addCleanup(job.stop)
        job.trains()
        page = self.open(job.page())
        wait_for(lambda: page.run(ROWS) == 4, "four tasks on the page")
        # A task that is slow to answer on a loaded machine is down for a moment.
        wait_for(lambda: page.text("#up") == "4 of 4", "all tasks")
        # On a loaded machine a worker may well be slow, but the job is not stuck.
        wait_for(lambda: re.match("Nothing blocks the job|Slow: ", page.text("#findings")), "a job that is not stuck")
        self.assertEqual(page.run("document.querySelectorAll('#findings .stuck').length"), 0, page.text("#findings"))
        self.assertEqual(page.run("document.querySelectorAll('#picture [data-node]').length"), 4)
        # It updates itself: the step grows without a reload.
        first = wait_for(lambda: number(page.text("#step")), "the global step")
        wait_for(lambda: number(page.text("#step")) > first, "a later step")
        wait_for(lambda: page.run("document.querySelectorAll('#plots polyline').length") > 0, "a plot of the loss")
        wait_for(lambda: "wait for" in page.text("#tasks"), "waits")
        wait_for(lambda: "worker 1" in page.text("#gradients"), "gradients of worker 1")
        wait_for(lambda: page.text("#learning-rate") == "0.0001", "the learning rate")
        wait_for(lambda: re.search(r"\d", page.text("#left")), "the time left")
        self.check_checkpoint(page)
        self.check_gradients(job, page)
        self.assertRegex(self.cell(page, "worker 0", "memory"), r"^\d+ MB of [\d.]+ GB$")
        self.assertRegex(self.cell(page, "worker 0", "cores"), r"^\d\.\d$")
        self.assertRegex(self.cell(page, "ps 0", "variables"), r"^[\d.]+ MB$")
        # Labels of the traffic do not cover each other.
        wait_for(lambda: page.run("document.querySelectorAll('#picture .speed').length") > 1, "labels of the traffic")
        self.assertEqual(page.run("""(() => {
            const boxes = [...document.querySelectorAll('#picture .speed')].map(t => t.getBoundingClientRect());
            return boxes.filter((a, i) => boxes.some((b, k) => k > i && a.left < b.right && b.left < a.right &&
                                                               a.top < b.bottom && b.top < a.bottom)).length;
        })()"""), 0)
        # Everything that is drawn has a text for screen readers, and the table can be reached by keyboard.
        self.assertEqual(page.run("[...document.querySelectorAll('svg:not([aria-hidden])')].filter(s => !s.getAttribute('aria-label')).length"), 0)
        self.assertEqual(page.run("document.querySelectorAll('[tabindex=\"0\"]').length > 0"), True)
        # A link keeps the focus when the table is updated.
        page.run("document.querySelector('#tasks tr[data-task=\"worker 0\"] a').focus()")
        steps = page.text("#tasks tr[data-task='worker 0']")
        wait_for(lambda: page.text("#tasks tr[data-task='worker 0']") != steps, "an update of the table")
        self.assertEqual(page.run("document.activeElement.getAttribute('aria-label')"), "open the page of worker 0")
        # The summary has a line per worker; the variables are on both parameter servers.
        wait_for(lambda: re.search(r"loss.*worker 0: [\d.]+", page.text("#plots"), re.DOTALL), "the plot of a summary")
        # The loss comes first, and numbers that steps fetch for themselves are folded.
        self.assertEqual(page.run("document.querySelector('#plots figcaption b').innerText"), "loss")
        self.assertEqual(page.run("[...document.querySelectorAll('#plots figcaption b')].filter("
                                  "b => b.innerText.includes('sync_replicas')).length"), 0)
        self.assertEqual(page.run("document.getElementById('more-plots').open"), False)
        # Shares are shares also in a parameter server, which runs several steps at a time.
        shares = page.run("[...document.querySelectorAll('#tasks .bar')].map(b => b.getAttribute('aria-label'))")
        for text in shares:
            self.assertLessEqual(sum(map(int, re.findall(r"(\d+)%", text))), 101, text)
        self.assertRegex(page.text("#tasks tr[data-task='worker 0']"), r"\d m?s \([\d.]+ m?s\)")  # median and p99
        self.assertRegex(page.text("#balance"), r"on 2 parameter servers. The largest has 1\.\d+ times the mean")
        # Nothing comes from elsewhere.
        origins = page.run("[...new Set(performance.getEntriesByType('resource').map(e => new URL(e.name).origin))]")
        self.assertEqual(origins, [page.run("location.origin")])

        job.processes["worker 1"].send_signal(signal.SIGSTOP)
        wait_for(lambda: "not answering" in page.text("#tasks tr[data-task='worker 1']"), "the stopped worker")
        wait_for(lambda: "Stuck: worker 1 does not answer" in page.text("#findings"), "the finding")
        wait_for(lambda: page.text("#up") == "3 of 4", "three tasks")
        # Where the process is, and who waits for it.
        where = "process %d, %s" % (job.processes["worker 1"].pid, job.addresses["worker 1"])
        self.assertIn(where, self.cell(page, "worker 1", "state"))
        self.assertIn("at %s (process %d)" % (job.addresses["worker 1"], job.processes["worker 1"].pid), page.text("#findings"))
        arrows = "[...document.querySelectorAll('#picture .wait-arrow')].map(a => a.textContent)"
        wait_for(lambda: any(re.match(r"ps \d waits for worker 1, since \d", a) for a in page.run(arrows)), "who waits in the picture")
        self.assertIn("waits", page.run("document.querySelector('#picture .waiting').textContent"))
        self.assertIn("worker 1 does not answer", page.run("document.getElementById('announced').textContent"))
        # A blocked job has no time left, and its problem stands first.
        wait_for(lambda: page.text("#left") == "stuck", "no time left")
        wait_for(lambda: page.text("#rate") == "0", "no rate")
        self.assertEqual(page.run("document.querySelector('#tasks tbody tr').dataset.task"), "worker 1")
        # If its own task does not answer any more, the page says that it shows old numbers.
        self.assertEqual(page.text("#live"), "● live")
        job.kill("ps 0")
        wait_for(lambda: re.match(r"✖ no answer for \d+ s", page.text("#live")), "old numbers")
        self.assertEqual(page.run("document.body.className"), "stale")

    def cell(self, page, task, column):
        return page.run("""[...document.querySelector('#tasks tr[data-task="%s"]').cells].find(
            c => c.dataset.label === "%s").innerText""" % (task, column)).replace("\n", " ")

    def check_checkpoint(self, page):
        facts = wait_for(lambda: re.search(
            r"^path\s+(\S+)\s+saved\s+by worker 0, (.+) ago\s+took\s+(.+)\s+size\s+(.+)\s+read back\s+(.*without damage)$",
            page.text("#checkpoints")), "a verified checkpoint")
        self.assertRegex(facts.group(1), r"/checkpoints/model\.ckpt-\d+$")
        self.assertRegex(facts.group(2), r"^(less than 1|[\d.]+) (s|min)$")
        self.assertRegex(facts.group(3), r"^[\d.]+ m?s$")
        self.assertRegex(facts.group(4), r"^[\d.]+ MB$|^not known yet$")
        self.assertRegex(page.text("#checkpoint"), r"^(less than 1|[\d.]+) (s|min) ago$")

    def check_gradients(self, job, page):
        """The numbers lie between those of the status before and after."""
        def accepted():
            return sum(g["accepted"] for task in job.status().values() for g in task["gradients"] if g["worker"] == "worker 0")

        def fresh():
            return sum(task["staleness"][0] for task in job.status().values() if task["staleness"])

        def shown():
            found = re.search(r"worker 0\s+([\d,]+)\s+\d+\s+\d+", page.text("#gradients"))
            return found and number(found.group(1))

        def shown_fresh():
            label = page.run("(document.querySelector('#staleness svg') || document.body).getAttribute('aria-label') || ''")
            found = re.match(r"(\d+) gradients 0 steps old, \d+ gradients 1 steps old", label)
            return found and int(found.group(1))
        for status, on_page in ((accepted, shown), (fresh, shown_fresh)):
            least = wait_for(status, "gradients")
            value = wait_for(lambda: (on_page() or 0) >= least and on_page(), "the gradients of the status")
            self.assertLessEqual(value, status())

    def test_lost_restarted_and_restored_tasks_are_events(self):
        job = Job()
        self.addCleanup(job.stop)
        job.trains()
        wait_for(lambda: job.status()["worker 0"]["checkpoint"], "checkpoint")
        page = self.open(job.page("worker 0"))
        job.kill("ps 1")
        wait_for(lambda: re.search(r"worker 0, task lost: .*ps", page.text("#events")), "the lost task")
        job.start("ps 1")
        wait_for(lambda: "task restarted: ps 1 has a new process" in page.text("#events"), "the new process")
        wait_for(lambda: re.search(r"restored: the variables, from \S+model\.ckpt-\d+", page.text("#events")), "the checkpoint")

    def test_an_expelled_worker_and_the_gradient_that_is_awaited(self):
        job = Job("--is_sync", "--expel_after=8s")
        self.addCleanup(job.stop)
        job.trains()
        page = self.open(job.page())
        wait_for(lambda: page.text("#up") == "4 of 4", "all tasks")
        wait_for(lambda: re.search(r"accepted\s+stale\s+dropped\s+worker 0\s+[\d,]+", page.text("#gradients")), "gradients")
        job.processes["worker 1"].send_signal(signal.SIGSTOP)
        wait_for(lambda: re.search(r"waits for a gradient of worker 1 for step [\d,]+, since \d", page.text("#tasks")),
                 "the gradient")
        wait_for(lambda: re.search(r"not answering for \d+ s, expelled", page.text("#tasks tr[data-task='worker 1']")),
                 "the expelled worker")
        wait_for(lambda: "worker expelled: worker 1 held up the others" in page.text("#events"), "the event")
        wait_for(lambda: "the training goes on without it" in page.text("#findings"), "the finding")
        self.assertEqual(page.run("document.querySelectorAll('#findings .stuck').length"), 0, page.text("#findings"))

    def test_gradients_of_asynchronous_training_are_counted(self):
        job = Job()
        self.addCleanup(job.stop)
        job.trains()
        page = self.open(job.page())
        wait_for(lambda: re.search(r"applied\s+worker 0\s+[\d,]+\s+worker 1\s+[\d,]+", page.text("#gradients")), "gradients by worker")

    def test_links_carry_the_token(self):
        address = self.servers_page("--http_token", "se&cret")
        page = self.open(address + "?token=se%26cret")
        wait_for(lambda: page.run(ROWS) == 1, "the task")
        links = page.run("[...document.querySelectorAll('footer a, #tasks a')].map(a => a.href)")
        self.assertEqual(len(links), 8)
        for link in links:
            if link.endswith("readyz?token=se%26cret"):
                continue  # there are no variables
            with urllib.request.urlopen(link, timeout=10) as reply:
                self.assertEqual(reply.status, 200, link)
        bare = self.open(address)
        wait_for(lambda: "401" in bare.run("document.body.innerText") or "needs a token" in bare.run("document.body.innerText"),
                 "refusal without the token")

    def test_names_are_text_whatever_they_contain(self):
        hostile = "<img src=x onerror=document.title='hurt'><script>document.title='hurt'</script>"
        page = self.open("about:blank")
        with urllib.request.urlopen(self.servers_page(), timeout=10) as reply:
            markup = reply.read().decode()
        task = {"name": "ps 0", "state": "up", "http": "javascript:document.title='hurt'", "error": hostile, "address": hostile, "running": [],
                "phases": [{"phase": "wait", "on": hostile, "seconds": 1, "share": 0.5}], "variables": 1,
                "variable_bytes": 1, "memory_bytes": 1, "cpu_share": 0.1, "steps": 1, "steps_per_second": 1,
                "traffic": [{"peer": hostile, "bytes_per_second": 1e6}], "staleness": [1], "time": 5,
                "gradients": [{"worker": hostile, "accepted": 1, "stale": 1, "dropped": 1, "applied": 0}],
                "gradient_waits": [{"step": 1, "have": 0, "wanted": 1, "missing": [hostile], "seconds": 2}],
                "members": [{"worker": hostile, "state": "expelled", "seconds": 1}], "step_seconds_median": 0.1,
                "step_seconds_p99": 0.2, "memory_limit_bytes": 2, "host": hostile, "task": hostile, "seconds_since_step": 1, "has_global_step": True,
                "global_step": 1, "global_steps_per_second": 1,
                "scalars": [{"name": hostile, "steps": [1, 2], "values": [1, 2]}],
                "events": [{"time": 1, "kind": hostile, "text": hostile}],
                "checkpoint": {"path": hostile, "time": 1, "seconds": 1, "bytes": 1, "verified": "", "damage": hostile}}
        job = {"tasks": [task, dict(task, name=hostile), dict(task, name="ps " + hostile)],
               "findings": [{"stuck": True, "culprit": hostile, "text": hostile}],
               "seconds_left": 1}
        # The real page, with an answer as a hostile task would give it.
        fake = "<script>window.fetch = async () => ({ ok: true, json: async () => (%s) });</script>" % (
            json.dumps(job).replace("<", "\\u003c"))
        page.call("Page.setDocumentContent", frameId=page.call("Page.getFrameTree")["frameTree"]["frame"]["id"],
                  html=markup.replace("<script>", fake + "<script>", 1))
        wait_for(lambda: page.run(ROWS) == 3, "the tasks")
        for place in ("tasks", "findings", "events", "plots", "gradients", "checkpoints", "picture", "announced", "servers"):
            self.assertIn("<img src=x", page.run("document.getElementById('%s').textContent" % place), place)
        self.assertEqual(page.run("document.querySelectorAll('img, main script, a[href^=javascript]').length"), 0)
        self.assertNotIn("hurt", page.run("document.title"))

    def test_64_tasks_and_a_phone(self):
        servers = ManyServers()
        self.addCleanup(servers.stop)
        page = self.open(servers.page)
        wait_for(lambda: page.run(ROWS) == 64, "64 tasks on the page")
        wait_for(lambda: page.text("#up") == "64 of 64", "all tasks")
        self.assertEqual(page.run("document.querySelectorAll('#picture [data-node]').length"), 64)
        # The questions of the page are traffic between the tasks.
        wait_for(lambda: page.run("document.querySelectorAll('#picture path').length") > 30, "traffic")
        first = "document.querySelector('#tasks tbody tr').dataset.task"
        self.assertEqual(page.run(first), "ps 0")
        servers.processes[4 + 37].kill()
        wait_for(lambda: page.run(first) == "worker 37", "the lost task before all others")
        wait_for(lambda: "worker 37 cannot be reached" in page.text("#findings"), "the finding")

        def choose(element, value):
            page.run("(e => { e.value = %s; e.dispatchEvent(new Event('input')); })(document.getElementById('%s'))" % (
                json.dumps(value), element))
        choose("filter", "worker 3")
        self.assertEqual(page.run(ROWS), 11)  # 3 and 30 to 39
        self.assertEqual(page.text("#shown"), "11 of 64 tasks")
        choose("filter", "not running")
        self.assertEqual(page.run(ROWS), 1)
        choose("filter", "")
        choose("sort", "name")
        self.assertEqual(page.run(first), "ps 0")
        phone = self.open(servers.page, width=390, height=800, phone=True)
        wait_for(lambda: phone.run(ROWS) == 64, "64 tasks on the phone")
        self.assertLessEqual(phone.run("document.documentElement.scrollWidth"), 390)
        # The texts of the picture can be read without zooming.
        self.assertGreaterEqual(phone.run("""Math.min(...[...document.querySelectorAll('#picture text')].map(
            t => t.getBoundingClientRect().height))"""), 11)


def write_pictures(folder):
    os.makedirs(folder, exist_ok=True)
    job = Job("--is_sync")
    try:
        job.trains()
        page = Browser(job.page())
        wait_for(lambda: page.run("(document.querySelector('#plots polyline') || {getAttribute: () => ''})"
                                  ".getAttribute('points').split(' ').length") > 6, "a plot with some points")
        wait_for(lambda: "wait for" in page.text("#tasks"), "waits")
        wait_for(lambda: "without damage" in page.text("#checkpoints"), "a verified checkpoint")
        wait_for(lambda: re.search(r"\d", page.text("#left")), "the time left")
        page.picture(os.path.join(folder, "status_training.png"))
        job.processes["worker 1"].send_signal(signal.SIGSTOP)
        wait_for(lambda: "Stuck: worker 1 does not answer" in page.text("#findings") and page.text("#rate") == "0", "the stopped worker")
        page.picture(os.path.join(folder, "status_stopped.png"))
        page.close()
        phone = Browser(job.page(), width=390, height=800, phone=True)
        wait_for(lambda: phone.run(ROWS) == 4, "four tasks on the phone")
        phone.picture(os.path.join(folder, "status_phone.png"))
        phone.close()
    finally:
        job.stop()
    servers = ManyServers()
    try:
        page = Browser(servers.page)
        wait_for(lambda: page.text("#up") == "64 of 64", "all tasks")
        servers.processes[4 + 37].kill()
        wait_for(lambda: "worker 37 cannot be reached" in page.text("#findings"), "the finding")
        wait_for(lambda: page.run("document.querySelectorAll('#picture path').length") > 30, "traffic")
        page.picture(os.path.join(folder, "status_64_tasks.png"))
        page.close()
    finally:
        servers.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pictures"]:
        write_pictures(sys.argv[2])
    else:
        unittest.main()
