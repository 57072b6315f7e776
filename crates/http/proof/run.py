"""Runs the checks, each by its name; the last line counts them."""

import os
import sys
import time
import traceback
from pathlib import Path

import documents
import fuzzing
import hostile
import patient
import prometheus
import spans
from collector import Collector
from daemon import Daemon

target = Path(os.environ["HTTP_TARGET"]).resolve()
wanted = sys.argv[1:]
passed, failed, skipped = 0, [], 0


def check(name, body):
    global passed
    if wanted and not any(part in name for part in wanted):
        return None
    began = time.monotonic()
    try:
        found = body()
    except Exception:
        traceback.print_exc(file=sys.stdout)
        print(f"FAILED  {name}", flush=True)
        failed.append(name)
        return None
    passed += 1
    print(f"ok      {name} ({time.monotonic() - began:.1f} s)", flush=True)
    return found


def skip(name, reason):
    global skipped
    skipped += 1
    print(f"skipped {name}: {reason}")


collector = Collector()
daemon = Daemon(f"http://127.0.0.1:{collector.port}")
patients = [] if wanted and not any("patient" in part for part in wanted) else patient.begin(daemon)
check("documents: openapi", lambda: documents.openapi(daemon, target))
if (target / "node" / "node_modules").is_dir():
    check("documents: asyncapi", lambda: documents.asyncapi(daemon, target))
else:
    skip("documents: asyncapi", "no npm, or it could not install the parser")
check("documents: schemas", lambda: documents.schemas(daemon, target))
if prometheus.missing():
    skip("prometheus", f"missing: {', '.join(prometheus.missing())}")
else:
    check("prometheus: promtool", lambda: prometheus.metrics(daemon, target))
    check("prometheus: scrape", lambda: prometheus.scrape(daemon, target))
check("spans: a trace", lambda: spans.traces(daemon, collector))
check("spans: without a traceparent", lambda: spans.without_traceparent(daemon, collector))
check("spans: errors and sampling", lambda: spans.errors_and_sampling(daemon, collector))
collector = check("spans: a collector that is away", lambda: spans.away(daemon, collector)) or collector
check("fuzzing: types of capabilities", lambda: fuzzing.application(daemon, target))
check("fuzzing: everything", lambda: fuzzing.everything(daemon, target))
for one in patients:
    name = getattr(one, "name_of_it", "a stream that is not read")
    check(f"patient: {name}", one.check)
before = hostile.descriptors(daemon)
for attack in hostile.ATTACKS:
    name = attack.__name__.replace("_", " ")
    check(f"hostile: {name}", lambda: hostile.attacked(daemon, name, attack(daemon)))
check("hostile: afterwards", lambda: hostile.afterwards(daemon, before))
check("the daemon ends in order", daemon.end)
if daemon.process.poll() is None:
    daemon.process.kill()
for name in failed:
    print(f"failed: {name}")
print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
sys.exit(1 if failed else 0)
