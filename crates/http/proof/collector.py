"""A collector of spans: OTLP over HTTP, read with the official protobuf definitions."""

import base64
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    def __init__(self, port=0):
        self.requests, self.faults, self.lock = [], [], threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, self.headers["Content-Type"], body)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, media_type, body):
        with self.lock:
            try:
                assert (path, media_type) == ("/v1/traces", "application/json"), (path, media_type)
                # Unknown members and wrong types are refused here.
                self.requests.append(json_format.Parse(body, ExportTraceServiceRequest()))
            except Exception as error:
                self.faults.append(f"{error}: {body[:2000]!r}")

    def spans(self):
        """Every span so far, with ids as hexadecimal digits and attributes as a table."""
        with self.lock:
            assert not self.faults, self.faults[0]
            found = []
            for request in self.requests:
                for resource in request.resource_spans:
                    service = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
                    for scope in resource.scope_spans:
                        found += [Span(span, service) for span in scope.spans]
            return found

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Span:
    def __init__(self, span, service):
        # In JSON these are digits, which the parser takes for base64: turned back, they are digits
        # again.
        digits = lambda value: base64.b64encode(value).decode()
        self.trace, self.id, self.parent = digits(span.trace_id), digits(span.span_id), digits(span.parent_span_id)
        self.name, self.kind, self.status = span.name, span.kind, span.status.code
        self.start, self.end, self.service = span.start_time_unix_nano, span.end_time_unix_nano, service["service.name"]
        self.attributes = {item.key: item.value.string_value or item.value.int_value for item in span.attributes}
