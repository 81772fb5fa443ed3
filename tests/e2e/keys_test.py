"""Keys: who may ask, what for, and whose responses are whose.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import time

import openai
from common import (
    PAWL, SLOWNESS, Server, WebSocketError, ask, case, check_error, equal, main, need, receive, refused, send, text_of)

SCRIPT = {"replay": {"context": 4096, "replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"text": "Yes."},
]}}
FIXED = "a-key-from-the-environment"
HEADERS = {"Content-Type": "application/json"}


def pawl_key(server, *arguments, expect=0):
    """Runs `pawl key` on the server's folder; what it says on standard output."""
    got = subprocess.run([PAWL, "key", *arguments, "--data", server.data], capture_output=True, text=True, timeout=60)
    equal(got.returncode, expect, f"status of pawl key {' '.join(arguments)} ({got.stderr[-300:]})")
    return got.stdout if expect == 0 else got.stderr


def add(server, *arguments):
    secret = pawl_key(server, "add", *arguments).strip()
    need(re.fullmatch(r"pawl-[0-9a-z]{52}", secret), f"the secret {secret!r}")
    return secret


def list_keys(server):
    return [json.loads(line) for line in pawl_key(server, "list", "--json").splitlines()]


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def create(server, secret, expect=200, **request):
    reply = server.http("POST", "/v1/responses", {"model": "replay", "input": "hello", **request}, **bearer(secret))
    equal(reply.status, expect, f"status ({reply.body[:200]!r})")
    return reply.json()


def check_401(reply):
    equal(reply.status, 401, f"status ({reply.body[:200]!r})")
    equal(reply.headers["www-authenticate"], "Bearer", "WWW-Authenticate")
    equal(reply.headers["content-type"], "application/json", "content type")
    need(reply.headers["x-request-id"], "no x-request-id")
    error = reply.json()["error"]
    equal(set(error), {"message", "type", "param", "code"}, "keys of the error")
    equal((error["type"], error["code"], error["param"]), ("invalid_request_error", "invalid_api_key", None), "the error")


def refused_handshake(server, status, **headers):
    try:
        server.connect(**headers)
    except WebSocketError as end:
        equal(end.status, status, f"status of the handshake ({end.body[:200]!r})")
        return json.loads(end.body)["error"]
    raise AssertionError("the handshake was granted")


@case
def every_way_to_be_refused():
    with Server(SCRIPT, env={"PAWL_API_KEY": FIXED}) as server:
        revoked, expired = add(server, "--name", "a"), add(server, "--name", "b", "--expires", "1")
        pawl_key(server, "revoke", list_keys(server)[0]["id"])
        server.stop()
        with sqlite3.connect(server.data / "pawl.db") as db:
            db.execute("UPDATE api_key SET expires_ms = created_ms + 1 WHERE name = 'b'")
        server.start()
        wrong = [{}, bearer("wrong"), bearer(FIXED[:-1]), bearer(FIXED + "x"), bearer(FIXED.upper()), bearer(revoked),
                 bearer(expired), bearer(""), {"Authorization": FIXED}, {"Authorization": "Basic dXNlcjpwYXNz"},
                 {"Authorization": "Bearer"}, {"Authorization": f"Bearer {FIXED} x"}, {"Authorization": "Bearer \x7f"},
                 {"Authorization": "Bearer " + "x" * 2000}, {"api-key": FIXED}, {"X-Authorization": f"Bearer {FIXED}"}]
        body = {"model": "replay", "input": "hello"}
        for headers in wrong:
            for method, path, what in (("GET", "/v1/models", None), ("POST", "/v1/responses", body),
                                       ("POST", "/v1/responses", {**body, "stream": True}), ("POST", "/responses", body),
                                       ("GET", "/v1/responses/resp_x", None), ("DELETE", "/v1/responses/resp_x", None),
                                       ("GET", "/metrics", None), ("GET", "/nowhere", None), ("POST", "/v1/responses", b"{")):
                check_401(server.http(method, path, what, **headers))
            error = refused_handshake(server, 401, **headers)
            equal(error["code"], "invalid_api_key", "code at the handshake")
        need("revoked" in refused_handshake(server, 401, **bearer(revoked))["message"], "it does not say: revoked")
        need("expired" in refused_handshake(server, 401, **bearer(expired))["message"], "it does not say: expired")
        for path in ("/health", "/livez", "/readyz", "/v1/health"):
            equal(server.http("GET", path).status, 200, f"{path} without a key")
        equal(server.http("GET", f"/v1/models?api_key={FIXED}").status, 401, "a key in the URL")
        equal(text_of(create(server, FIXED)), "Yes.", "with the key")
        with server.connect(**bearer(FIXED)) as ws:
            equal(text_of(ask(ws, input="hello")), "Yes.", "with the key, on a socket")


@case
def a_file_of_keys():
    with Server(SCRIPT) as server:
        server.stop()
        file = server.folder / "keys"
        file.write_text("# ours\nfirst-secret-of-the-file\nsecond-secret-of-the-file team # theirs\n")
        server.command += ["--api-key-file", file]
        for mode in (0o644, 0o640, 0o602):
            file.chmod(mode)
            got = subprocess.run(server.command, capture_output=True, text=True, timeout=60 * SLOWNESS)
            equal(got.returncode, 1, f"status with a key file of mode {mode:o}")
            need("chmod 600" in got.stderr, f"it says {got.stderr[-300:]!r}")
        file.chmod(0o600)
        server.start()
        ours = create(server, "first-secret-of-the-file")["id"]
        create(server, "second-secret-of-the-file")
        create(server, "third", expect=401)
        for secret, status in (("first-secret-of-the-file", 200), ("second-secret-of-the-file", 404)):
            equal(server.http("GET", f"/v1/responses/{ours}", **bearer(secret)).status, status, "whose it is")


@case
def no_network_without_a_key():
    with Server(SCRIPT) as server:
        server.stop()
        command = [str(word) for word in server.command]
        command[command.index("127.0.0.1:0")] = "0.0.0.0:0"
        got = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOWNESS)
        equal(got.returncode, 1, "status")
        need("pawl key add" in got.stderr and "PAWL_API_KEY" in got.stderr, f"it says {got.stderr[-300:]!r}")
        server.command, before = command, server.command
        secret = add(server)
        server.start()
        equal(server.host, "0.0.0.0", "what it listens on")
        server.host, server.address = "127.0.0.1", f"127.0.0.1:{server.port}"
        equal(text_of(create(server, secret)), "Yes.", "on the network, with a key")
        check_401(server.http("GET", "/v1/models"))
        equal(server.http("GET", "/v1/models", Host="192.0.2.7:80", **bearer(secret)).status, 200, "called by an address")
        equal(server.http("GET", "/v1/models", Host="evil.example", **bearer(secret)).status, 403, "called by a name")


@case
def keys_come_and_go_while_it_runs():
    with Server(SCRIPT) as server:
        open_ws = server.connect()
        equal(text_of(ask(open_ws, input="hello")), "Yes.", "without any key")
        equal(server.http("GET", "/v1/models", Authorization="Basic x").status, 200, "any Authorization, where there are no keys")
        secret = add(server, "--name", "alice")
        check_401(server.http("GET", "/v1/models"))
        refused(open_ws, "invalid_api_key", 401, input="hello")
        equal(text_of(create(server, secret)), "Yes.", "with the new key")
        (key,) = list_keys(server)
        equal((key["name"], key["scopes"], key["state"], key["hint"]), ("alice", "inference", "good", secret[:10]), "the list")
        ws = server.connect(**bearer(secret))
        ask(ws, input="hello")
        send(ws, input="endless", max_output_tokens=200, stream_id="runs")
        receive(ws, ("response.output_text.delta",))
        pawl_key(server, "revoke", key["id"])
        check_401(server.http("GET", "/v1/models", **bearer(secret)))
        send(ws, input="hello", stream_id="late")
        events = receive(ws, ("error",))
        check_error(events[-1], "invalid_api_key", 401, lane="late")
        equal(receive(ws)[-1]["type"], "response.incomplete", "what ran when the key was revoked")
        try:
            ws.recv()
            raise AssertionError("the socket goes on")
        except WebSocketError as end:
            equal(end.code, 1008, "close code")
        check_401(server.http("GET", "/v1/models"))  # a server whose keys are all revoked is not open
        need("no key" in pawl_key(server, "revoke", "key_nobody", expect=1), "an unknown id")


@case
def keys_and_the_disk():
    """A key is there after kill -9, and its secret is nowhere."""
    with Server(SCRIPT) as server:
        secret = add(server, "--name", "x")
        create(server, secret)
        server.kill()
        before = add(server, "--name", "y")  # nobody holds the folder
        server.start()
        create(server, secret)
        create(server, before)
        equal([k["name"] for k in list_keys(server)], ["x", "y"], "names")
        need(all(k["used_ms"] for k in list_keys(server)), "when they were used is not noted")
        for file in [*server.data.iterdir(), server.log_path]:
            if file.is_file():
                need(secret.encode() not in file.read_bytes(), f"the secret is in {file}")
        equal((server.data / "control").stat().st_mode & 0o777, 0o600, "mode of the control socket")


@case
def what_a_key_may():
    with Server(SCRIPT) as server:
        user, admin = add(server, "--name", "t"), add(server, "--name", "t", "--scope", "admin")
        metrics = add(server, "--name", "m", "--scope", "metrics")
        made = create(server, user)["id"]
        for secret, method, path, status in (
                (user, "GET", "/v1/models", 200), (user, "DELETE", f"/v1/responses/{made}", 403),
                (user, "GET", "/metrics", 403), (metrics, "GET", "/v1/models", 403),
                (metrics, "GET", f"/v1/responses/{made}", 403), (admin, "GET", f"/v1/responses/{made}", 200),
                (admin, "DELETE", f"/v1/responses/{made}", 200), (user, "GET", f"/v1/responses/{made}", 404)):
            reply = server.http(method, path, **bearer(secret))
            equal(reply.status, status, f"{method} {path}")
            if status == 403:
                equal(reply.json()["error"]["code"], "insufficient_scope", "code")
        equal(refused_handshake(server, 403, **bearer(metrics))["code"], "insufficient_scope", "at the handshake")
        need(server.http("GET", "/metrics", **bearer(metrics)).status in (200, 404), "metrics with the key for it")


@case
def tenants_see_their_own():
    with Server(SCRIPT) as server:
        nobodys = server.create(input="hello")["id"]  # before there were keys
        alice, bob = (add(server, "--name", name, "--scope", "admin") for name in ("alice", "bob"))
        again = add(server, "--name", "alice")
        made = create(server, alice)["id"]
        for other in (made, nobodys):
            for method, path in (("GET", f"/v1/responses/{other}"), ("GET", f"/v1/responses/{other}/input_items"),
                                 ("POST", f"/v1/responses/{other}/cancel"), ("DELETE", f"/v1/responses/{other}")):
                body = b"{}" if method == "POST" else None
                seen = server.http(method, path, body, **bearer(bob))
                unknown = server.http(method, path.replace(other, "resp_unknown"), body, **bearer(bob))
                equal(seen.status, 404, f"{method} {path}")
                equal(seen.body.replace(other.encode(), b""), unknown.body.replace(b"resp_unknown", b""),
                      "another tenant's response against an unknown one")
            error = create(server, bob, 400, previous_response_id=other)["error"]
            equal(error["code"], "previous_response_not_found", "code")
            with server.connect(**bearer(bob)) as ws:
                refused(ws, "previous_response_not_found", 400, input="go on", previous_response_id=other)
        for secret in (alice, again):
            equal(server.http("GET", f"/v1/responses/{made}", **bearer(secret)).status, 200, "a key of the same name")
        follow = create(server, again, previous_response_id=made)
        equal(follow["previous_response_id"], made, "a turn that goes on")
        server.kill()
        server.start()
        equal(server.http("GET", f"/v1/responses/{follow['id']}", **bearer(alice)).status, 200, "after kill -9")
        equal(server.http("GET", f"/v1/responses/{follow['id']}", **bearer(bob)).status, 404, "after kill -9")


@case
def tenants_talk_apart():
    with Server(SCRIPT) as server:
        alice, bob = add(server, "--name", "alice"), add(server, "--name", "bob", "--scope", "admin")

        def ask_of(secret, method, path, body=None):
            return server.http(method, f"/v1/conversations{path}", body, **bearer(secret))

        made = ask_of(alice, "POST", "", {"items": [{"role": "user", "content": "A secret."}]}).json()["id"]
        item = ask_of(alice, "GET", f"/{made}/items").json()["data"][0]["id"]
        for method, path, body in (
                ("GET", "/{}", None), ("POST", "/{}", {"metadata": {}}), ("DELETE", "/{}", None), ("GET", "/{}/items", None),
                ("POST", "/{}/items", {"items": []}), ("GET", "/{}/items/" + item, None), ("DELETE", "/{}/items/" + item, None)):
            seen, unknown = (ask_of(bob, method, path.format(name), body) for name in (made, "conv_unknown"))
            equal(seen.status, 404, f"{method} {path}")
            equal(seen.body.replace(made.encode(), b""), unknown.body.replace(b"conv_unknown", b""),
                  "another tenant's conversation against an unknown one")
        equal(ask_of(bob, "POST", "", {"fork": {"conversation": made}}).status, 404, "a fork of another tenant's")
        equal(ask_of(bob, "GET", "").json()["data"], [], "the list of another tenant")
        equal(ask_of(bob, "GET", f"?after={made}").status, 400, "a page after another tenant's")
        create(server, bob, 404, conversation=made)
        create(server, alice, conversation=made)
        with server.connect(**bearer(alice)) as ws:  # that it is held, nobody else learns
            send(ws, input="endless", conversation=made)
            receive(ws, ("response.output_text.delta",))
            create(server, alice, 409, conversation=made)
            create(server, bob, 404, conversation=made)
        while (reply := ask_of(alice, "DELETE", f"/{made}/items/{item}")).status == 409:
            time.sleep(0.01)  # until the turn is over whose socket is closed
        equal(reply.status, 200, "an item of one's own, with a key for inference")
        equal(ask_of(alice, "DELETE", f"/{made}").status, 403, "a whole conversation, with a key for inference")


@case
def tenants_do_not_see_each_others_cache():
    """cached_tokens would tell one tenant what another has asked."""
    with Server(SCRIPT) as server:
        alice, bob = add(server, "--name", "alice"), add(server, "--name", "bob")
        text = "A secret plan of many words, which nobody else is to know, begins with the word perhaps."

        def cached(secret):
            return create(server, secret, input=text)["usage"]["input_tokens_details"]["cached_tokens"]

        equal(cached(alice), 0, "tokens cached at first")
        need(cached(alice) > 16, "nothing is cached of one's own")
        equal(cached(bob), 0, "tokens cached of another tenant's")
        need(cached(bob) > 16, "nothing is cached of one's own")


@case
def clients_that_people_use():
    with Server(SCRIPT, env={"PAWL_API_KEY": FIXED}) as server:
        scripts = pathlib.Path(__file__).parent / "clients"
        for script, only in (("raw_ws.py", "no_key_is_401"), ("sdk_errors.py", "unauthorized")):
            if not (scripts / script).exists():
                continue
            environment = {**os.environ, "BASE_URL": server.base_url, "API_KEY": FIXED, "MODEL": "replay", "ONLY": only}
            got = subprocess.run([sys.executable, scripts / script], env=environment, capture_output=True, text=True,
                                 timeout=50 * SLOWNESS)
            need(got.returncode == 0 and "PASS" in got.stdout.upper(), f"{script} {only}: {got.stdout[-300:]}")
        client = openai.OpenAI(base_url=server.base_url, api_key="wrong", max_retries=0)
        try:
            client.responses.create(model="replay", input="hello")
            raise AssertionError("answered without a key")
        except openai.AuthenticationError as error:
            equal(error.code, "invalid_api_key", "code")
        client = openai.OpenAI(base_url=server.base_url, api_key=FIXED, max_retries=0)
        equal(client.responses.create(model="replay", input="hello").output_text, "Yes.", "with the key")


@case
def the_command_line():
    with Server(SCRIPT) as server:
        for arguments in ((), ("add", "x"), ("revoke",), ("list", "--name", "x"), ("add", "--scope", "all"),
                          ("add", "--expires", "0"), ("add", "--expires", "x"), ("turn",)):
            pawl_key(server, *arguments, expect=2)
        pawl_key(server, "add", "--name", "x" * 65, expect=1)
        pawl_key(server, "add", "--name", "a\nb", expect=1)
        equal(list_keys(server), [], "keys")
        for help_of in (("key", "--help"), ("serve", "--help"), ("--help",)):
            need("key" in subprocess.run([PAWL, *help_of], capture_output=True, text=True, check=True).stdout, "help")


if __name__ == "__main__":
    main()
