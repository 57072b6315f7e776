"""The documents, read by validators that others made."""

import json
import subprocess

from daemon import APP, OPERATOR, Client
from openapi_spec_validator import validate


def openapi(daemon, target):
    for token in (APP, OPERATOR):
        status, document = Client(daemon, token).ask("GET", "/openapi.json")
        assert status == 200 and document["openapi"].startswith("3.1"), status
        validate(document)
        assert ("/v1/commands/Bank.Pay" in document["paths"]) == (token == OPERATOR), "rights are those of the token"
        assert "/v1/commands/Shop.Buy" in document["paths"]


def asyncapi(daemon, target):
    for token in (APP, OPERATOR):
        document = Client(daemon, token).raw("GET", "/asyncapi.json")[2]
        command = ["node", target / "node" / "asyncapi.mjs"]
        told = subprocess.run(command, input=document, cwd=target / "node", capture_output=True, timeout=120)
        assert told.returncode == 0, told.stderr.decode()[-2000:]
        assert told.stdout.startswith(b"3.1"), told.stdout
        assert "emitted_Shop_Sold" in json.loads(document)["channels"]


def schemas(daemon, target):
    status, schema = Client(daemon).ask("GET", "/schemas/Shop.Buy.json")
    assert status == 200 and schema["kinds"][0]["input"]["required"] == ["item", "count"], schema
    assert Client(daemon).ask("GET", "/schemas/Bank.Pay.json")[0] == 404, "not among the token's types"
