# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a real job with the rules of deploy/, and evaluates the queries of the dashboard."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from observe_test import Job, wait_for  # noqa: E402
from ports import free_ports  # noqa: E402

DEPLOY = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy"


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.job = Job("--is_sync")
        cls.addClassCleanup(cls.job.stop)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        targets = [cls.job.page(name)[len("http://"):-1] for name in cls.job.addresses]
        shutil.copy(DEPLOY / "prometheus_rules.yml", folder.name)
        config = os.path.join(folder.name, "prometheus.yml")
        with open(config, "w") as file:
            json.dump({"rule_files": ["prometheus_rules.yml"],
                       "global": {"evaluation_interval": "1s"},
                       "scrape_configs": [{"job_name": "mnist", "scrape_interval": "1s",
                                           "static_configs": [{"targets": targets}]}]}, file)
        cls.config = config
        cls.address = "localhost:%d" % free_ports(1)[0]
        prometheus = subprocess.Popen(
            ["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + os.path.join(folder.name, "data"),
             "--web.listen-address=" + cls.address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(prometheus.wait)
        cls.addClassCleanup(prometheus.kill)

    def ask(self, path, **query):
        url = "http://%s/api/v1/%s?%s" % (self.address, path, urllib.parse.urlencode(query))
        with urllib.request.urlopen(url, timeout=10) as reply:
            answer = json.load(reply)
        self.assertEqual(answer["status"], "success", answer)
        return answer["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def test_promtool_accepts_rules_and_metrics(self):
        subprocess.run(["promtool", "check", "config", self.config], check=True, stdout=subprocess.DEVNULL)
        for name in self.job.addresses:
            subprocess.run(["promtool", "check", "metrics"], input=self.job.get("metrics", name).encode(), check=True,
                           stdout=subprocess.DEVNULL)

    def test_every_alert_fires_when_it_should(self):
        done = subprocess.run(["promtool", "test", "rules", str(pathlib.Path(__file__).with_name("alerts.yml"))],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        alerts = re.findall(r"- alert: (\w+)", (DEPLOY / "prometheus_rules.yml").read_text())
        tested = pathlib.Path(__file__).with_name("alerts.yml").read_text()
        self.assertEqual([a for a in alerts if not re.search(r"alertname: %s\s+exp_alerts:\s+- exp_labels" % a, tested)], [])

    def test_all_tasks_are_scraped_and_no_alert_fires(self):
        wait_for(lambda: len(self.query("up == 1")) == len(self.job.addresses), "scrape of all tasks")
        wait_for(lambda: self.query("sum(thalweg_steps_total) > 0"), "steps")
        rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
        self.assertEqual([rule.get("lastError") for rule in rules if rule["health"] == "err"], [])
        self.assertGreaterEqual({rule["name"] for rule in rules}, {"ThalwegStuck", "ThalwegTaskDown"})
        self.assertEqual([alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"]
                          if alert["state"] == "firing"], [])

    def test_every_query_of_the_dashboard_has_a_result(self):
        dashboard = json.loads((DEPLOY / "grafana_dashboard.json").read_text())
        never = {"Failed calls"}  # a job without failures has none
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                # The windows are shortened to the time that the test has.
                expression = target["expr"].replace("$job", "mnist").replace("[1m]", "[5s]").replace("[5m]", "[5s]")
                if panel["title"] in never:
                    self.query(expression)
                else:
                    wait_for(lambda: self.query(expression), panel["title"] + ": " + expression)


if __name__ == "__main__":
    unittest.main()
