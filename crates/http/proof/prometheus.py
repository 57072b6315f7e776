"""Debian's Prometheus scrapes the daemon, and its promtool reads what it is told."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request

from daemon import OPERATOR, Client, eventually

CONFIG = """
global: {{ scrape_interval: 1s, scrape_timeout: 1s }}
scrape_configs:
  - job_name: mainspring
    authorization: {{ type: Bearer, credentials: {token} }}
    static_configs: [{{ targets: ["127.0.0.1:{port}"] }}]
"""


def missing():
    return [name for name in ("prometheus", "promtool") if not shutil.which(name)]


def metrics(daemon, target):
    client = Client(daemon, OPERATOR)
    Client(daemon).ask("POST", "/v1/commands/Shop.Buy", {"item": "tea", "count": 1})
    status, headers, _ = client.raw("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("application/openmetrics-text"), headers
    status, headers, text = client.raw("GET", "/metrics", headers={"Accept": "text/plain"})
    assert status == 200 and headers["content-type"].startswith("text/plain"), headers
    told = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert told.returncode == 0, told.stdout.decode() + told.stderr.decode()


def scrape(daemon, target):
    folder = target / "prometheus"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "prometheus.yml").write_text(CONFIG.format(token=OPERATOR, port=daemon.port))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        def query(text):
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    found = json.load(answer)["data"]["result"]
            except OSError:
                return None
            return float(found[0]["value"][1]) if found else None

        eventually("prometheus scrapes", lambda: query("up") == 1, 60)
        for text in (
            'sum(mainspring_requests_ended_total{outcome="reply"}) > 0',
            "mainspring_request_duration_seconds_count > 0",
            "mainspring_loop_lag_seconds >= 0",
            'mainspring_capability_up{capability="shop"} == 1',
            "mainspring_timers >= 0",
            "mainspring_dead_letters_total >= 0",
            "mainspring_actor_restarts_total >= 0",
            "histogram_quantile(0.99, sum by (le) (mainspring_request_duration_seconds_bucket)) > 0",
        ):
            eventually(text, lambda: query(text) is not None)
        assert query('count({__name__=~"mainspring_.*"})') < 2000, "labels are bounded"
    finally:
        server.terminate()
        server.wait(timeout=30)
