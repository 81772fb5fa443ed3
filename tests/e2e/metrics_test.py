"""Metrics and log lines: the format, that everything moves, and that nothing said is told.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import re
import socket
import threading
import time

import exposition
from common import SLOWNESS, Server, ask, case, equal, main, need, receive, refused, send

SECRET = "the-bird-is-in-the-well"  # what is said; never to be logged
SCRIPT = {"context": 4096, "replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "break", "text": "abc", "fail_at": 2},
    {"when": "call", "text": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'},
    {"text": f"Yes, {SECRET}, and a few words more.", "delay_ms": 1},
]}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
MODEL = (("model", "replay"),)


def scrape(server):
    reply = server.http("GET", "/metrics")
    equal(reply.status, 200, "status of /metrics")
    equal(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8", "content type of /metrics")
    return exposition.parse(reply.body)


def until(server, what, condition, seconds=20):
    end = time.monotonic() + seconds * SLOWNESS
    while not condition(now := scrape(server)):
        need(time.monotonic() < end, what)
        time.sleep(0.02)
    return now


@case
def the_reader_is_strict():
    exposition.self_test()


@case
def the_text_is_as_prometheus_wants_it():
    # A model's name is the only label that people choose.
    with Server({'a"b\\c': SCRIPT, "replay": SCRIPT}) as server:
        got = scrape(server)
        need(("pawl_model_ready", (("model", 'a"b\\c'),)) in got, "the model's name is not a label")
        equal(server.http("POST", "/metrics", {}).status, 405, "POST /metrics")
        equal(server.http("GET", "/metrics/x").status, 404, "/metrics/x")
        with open(server.folder / "metrics.txt", "wb") as file:
            file.write(server.http("GET", "/metrics").body)


def use_everything(server):
    """Moves every counter and histogram at least once."""
    first = server.create(input=f"Hello {SECRET}")
    server.create(input="And?", previous_response_id=first["id"])
    server.create(input="short", max_output_tokens=16)
    server.create(input="call", tools=[TOOL])
    server.stream(input="break")
    server.stream(input=f"again {SECRET}")
    server.create(400, input="x" * 5000)  # longer than the context
    server.create(404, model="nobody", input="x")
    for path in ("/v1/models", "/v1/models/replay", "/readyz", "/livez", "/version", f"/v1/responses/{first['id']}", "/nowhere"):
        server.http("GET", path)
    with server.connect() as ws:
        ask(ws, input=f"hi {SECRET}")
        refused(ws, "invalid_value", input="x", temperature=7)
        send(ws, input="endless")
        receive(ws, ("response.output_text.delta",))
        ws.send(json.dumps({"type": "response.cancel"}))
        receive(ws)
    # Two that are left: nobody comes back to the first.
    ws = server.connect()
    send(ws, input="endless")
    receive(ws, ("response.output_text.delta",))
    ws.abort()
    until(server, "it is still there", lambda m: m["pawl_detached_cancelled_total", ()] == 1)
    server.http("GET", f"/v1/responses/{first['id']}?stream=true")


# Names that have to be there, and the labels with which they have to have moved.
MOVED = [
    ("pawl_prompt_tokens_total", MODEL), ("pawl_generation_tokens_total", MODEL), ("pawl_prompt_tokens_cached_total", MODEL),
    ("pawl_save_points_total", MODEL), ("pawl_prefix_cache_queries_total", MODEL), ("pawl_prefix_cache_hits_total", MODEL),
    *(("pawl_request_success_total", (("finished_reason", reason), *MODEL)) for reason in ("stop", "length", "tool_calls", "cancelled", "error")),
    ("pawl_admission_rejections_total", (*MODEL, ("reason", "too_long"))),
    *((f"pawl_{name}_count", MODEL) for name in (
        "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds", "request_inference_time_seconds",
        "e2e_request_latency_seconds", "time_to_first_token_seconds", "inter_token_latency_seconds",
        "request_time_per_output_token_seconds", "request_prompt_tokens", "request_generation_tokens", "iteration_seconds",
        "iteration_tokens", "iteration_sequences")),
    *(("pawl_http_requests_total", (("endpoint", endpoint), ("status", status))) for endpoint, status in (
        ("/responses", "200"), ("/responses", "400"), ("/responses", "404"), ("/responses/{id}", "200"), ("/models", "200"),
        ("/models/{path}", "200"), ("/readyz", "200"), ("/livez", "200"), ("/version", "200"), ("none", "404"), ("/metrics", "200"),
        ("websocket", "200"), ("websocket", "400"))),
    ("pawl_store_writes_total", (("outcome", "written"),)), ("pawl_store_commit_seconds_count", ()),
    ("pawl_detached_total", ()), ("pawl_detached_cancelled_total", ()), ("pawl_event_log_reads_total", ()),
    ("pawl_event_logs", ()), ("pawl_event_log_bytes", ()),
    ("pawl_log_lines_total", (("level", "info"),)), ("pawl_log_lines_total", (("level", "error"),)),
    ("pawl_plugin_replay_passes_total", (("plugin", "dev.pawl.test.replay"),)),
    ("pawl_plugin_replay_wait_seconds_count", (("plugin", "dev.pawl.test.replay"),)),
    ("process_cpu_seconds_total", ()),
]


@case
def everything_that_counts_moves():
    with Server({"replay": SCRIPT}, "--detach-seconds", "1") as server:
        before = scrape(server)
        for name in ("pawl_prompt_tokens_total", "pawl_generation_tokens_total", "pawl_e2e_request_latency_seconds_count"):
            equal(before[name, MODEL], 0, f"{name} before anybody asked: the probe counts")
        use_everything(server)
        server.create(input="y" * 2100)  # passes a save point
        server.http("GET", "/metrics")
        after = scrape(server)
        for key in MOVED:
            need(key in after, f"{key} is not there")
            need(after[key] > before.get(key, 0), f"{key} did not move: {before.get(key)} -> {after[key]}")
        for key, value in before.items():
            if key[0].endswith(("_total", "_count", "_bucket", "_sum")):
                need(after[key] >= value, f"{key} fell")


@case
def numbers_are_exact():
    with Server({"replay": SCRIPT}) as server:
        told = [server.create(input="one two three")["usage"] for _ in range(3)]
        got = scrape(server)
        for name, key in (("prompt_tokens", "input_tokens"), ("generation_tokens", "output_tokens")):
            equal(got[f"pawl_{name}_total", MODEL], sum(u[key] for u in told), name)
            equal(got[f"pawl_request_{name}_sum", MODEL], sum(u[key] for u in told), f"sum of {name}")
        equal(got["pawl_prompt_tokens_cached_total", MODEL], sum(u["input_tokens_details"]["cached_tokens"] for u in told), "cached")
        equal(got["pawl_inter_token_latency_seconds_count", MODEL], sum(u["output_tokens"] - 1 for u in told), "gaps")
        equal(got["pawl_request_success_total", (("finished_reason", "stop"), *MODEL)], 3, "ended")
        equal(got["pawl_store_writes_total", (("outcome", "written"),)], 3, "written")
        need(got["pawl_store_wal_bytes", ()] > 0 or got["pawl_store_write_queue", ()] == 0, "log of the store")
        need(got["process_resident_memory_bytes", ()] > 1 << 20, "memory")
        need(abs(got["process_start_time_seconds", ()] - time.time()) < 600, "start")
        need(5 < got["process_open_fds", ()] < got["process_max_fds", ()], "descriptors")
        equal([v for (name, _), v in got.items() if name == "pawl_build_info"], [1], "build_info")


# The same for state that is saved and comes back.
SAVED = [
    ("pawl_external_prefix_cache_queries_total", MODEL), ("pawl_external_prefix_cache_hits_total", MODEL),
    ("pawl_prefix_restores_total", MODEL), ("pawl_prefix_saves_total", MODEL),
    *((f"pawl_prefix_cache_{name}", (("tier", "memory"),)) for name in (
        "reads_total", "tier_queries_total", "tier_hits_total", "bytes", "chunks")),
    *((f"pawl_prefix_cache_{name}", (("tier", "disk"),)) for name in ("tier_queries_total", "bytes", "chunks")),
    ("pawl_prefix_cache_writes_total", (("outcome", "written"),)), ("pawl_prefix_cache_written_bytes_total", ()),
    ("pawl_prefix_cache_file_bytes", ()),
]


@case
def state_that_is_saved_counts():
    with Server({"replay": SCRIPT}, "--sequences", "1", "--kv-min-tokens", "16") as server:
        before = scrape(server)
        for _ in range(2):
            for n in range(8):  # more than the engine holds
                server.create(input=f"{n} {n} {n} is the number of this one")
        after = until(server, "not all of it is written", lambda m: m["pawl_prefix_cache_queue_bytes", ()] == 0 and
                      m["pawl_prefix_cache_chunks", (("tier", "disk"),)] == m["pawl_prefix_cache_chunks", (("tier", "memory"),)])
        for key in SAVED:
            need(after[key] > before.get(key, 0), f"{key} did not move: {before.get(key)} -> {after[key]}")
        server.kill()
        server.start()
        server.create(input="7 7 7 is the number of this one")
        after = scrape(server)
        for name in ("reads_total", "tier_hits_total"):
            need(after[f"pawl_prefix_cache_{name}", (("tier", "disk"),)] > 0, f"{name} of the disk did not move")
        need(after["pawl_prefix_cache_read_bytes_total", ()] > 0, "bytes that were read did not move")


@case
def gauges_rise_and_fall():
    with Server({"replay": {**SCRIPT, "page_tokens": 16}}, "--sequences", "2", "--context", "256") as server:
        idle = scrape(server)
        equal([idle[f"pawl_{n}", MODEL] for n in ("num_requests_running", "num_requests_waiting", "model_ready")], [0, 0, 1], "idle")
        ws = server.connect()
        for n in range(5):
            send(ws, input="endless", stream_id=f"l{n}")
        receive(ws, ("response.output_text.delta",))
        busy = until(server, "two run and three wait", lambda m: (m["pawl_num_requests_running", MODEL],
                     m["pawl_num_requests_waiting", MODEL], m["pawl_ws_lanes_running", ()]) == (2, 3, 5))
        equal(busy["pawl_ws_connections", ()], 1, "sockets")
        equal(busy["pawl_connections", ()], 2, "connections, with the one that asks")
        equal(busy["pawl_requests_open", ()], 5, "open requests")
        equal(busy["pawl_live_sequences", (*MODEL, ("state", "busy"))], 2, "busy sequences")
        need(busy["pawl_kv_cache_pages_free", MODEL] < busy["pawl_kv_cache_pages", MODEL], "no page is held")
        need(0 < busy["pawl_kv_cache_usage_perc", MODEL] < 1, "usage")
        equal((busy["pawl_event_logs_running", ()], busy["pawl_event_log_readers", ()], busy["pawl_responses_detached", ()]), (5, 0, 0),
              "running logs, readers, detached")
        # which the plugin reports when the pass of both is over
        until(server, "a plugin's gauge", lambda m: m["pawl_plugin_replay_width", (("plugin", "dev.pawl.test.replay"),)] == 2)
        background = server.create(input="endless", background=True)
        reader = http.client.HTTPConnection(server.host, int(server.port))
        reader.request("GET", f"/v1/responses/{background['id']}?stream=true")
        until(server, "nobody reads", lambda m: m["pawl_event_log_readers", ()] == 1)
        reader.close()
        until(server, "somebody still reads", lambda m: m["pawl_event_log_readers", ()] == 0)
        ws.abort()
        until(server, "nothing is detached", lambda m: m["pawl_responses_detached", ()] > 0)
        calm = until(server, "nothing runs", lambda m: (m["pawl_num_requests_running", MODEL], m["pawl_ws_connections", ()],
                     m["pawl_ws_lanes_running", ()], m["pawl_num_requests_waiting", MODEL]) == (0, 0, 0, 0))
        need(calm["pawl_live_sequences", (*MODEL, ("state", "idle"))] > 0, "idle sequences")


@case
def a_client_that_does_not_read_is_counted():
    with Server({"replay": {"context": 200000, "replies": [{"when": "flood", "text": "x" * 1000, "end": "none"}, {"text": "Yes."}]}}) as server:
        raw = socket.create_connection((server.host, int(server.port)))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = json.dumps({"model": "replay", "input": "flood", "stream": True, "store": False}).encode()
        raw.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        until(server, "nothing waits to be sent", lambda m: m["pawl_send_queue_bytes", ()] > 1 << 20)
        until(server, "it was not closed", lambda m: m["pawl_slow_closed_total", ()] == 1)
        raw.close()


@case
def names_of_strangers_make_no_series():
    with Server({"replay": SCRIPT}) as server:
        for n in range(30):
            server.http("GET", f"/v1/responses/{n}")
            server.http("GET", f"/nowhere/{n}")
            server.create(404, model=f"m{n}", input="x")
        got = scrape(server)
        labels = {value for _, pairs in got for name, value in pairs if name in ("endpoint", "model")}
        need(labels <= {"replay", "/responses", "/responses/{id}", "/metrics", "/readyz", "none"}, f"labels {labels}")


# ----------------------------------------------------------------------- logs


def lines_of(server, component="access"):
    lines = [json.loads(line) for line in server.log().splitlines()]
    return [line for line in lines if component in (None, line["component"])]


@case
def each_request_has_its_line_and_none_what_was_said():
    with Server({"replay": SCRIPT}, "--detach-seconds", "1") as server:
        use_everything(server)
        plain = server.http("POST", "/v1/responses", {"model": "replay", "input": "hello"}, X_Request_Id="my-own.1")
        equal(plain.headers["x-request-id"], "my-own.1", "the request's own id")
        odd = server.http("GET", "/v1/models", X_Request_Id='a"b')
        need(re.fullmatch(r"req_[0-9a-f]{32}", odd.headers["x-request-id"]), "an id that is not taken")
        server.stop()
        need(SECRET not in server.log() and "bird" not in server.log(), "what was said is in the log")
        lines = lines_of(server)
        mine = [line for line in lines if line.get("request_id") == "my-own.1"]
        equal(len(mine), 1, "lines of one request")
        line, got = mine[0], plain.json()
        equal((line["method"], line["path"], line["status"]), ("POST", "/v1/responses", 200), "what was asked")
        equal((line["model"], line["response_id"], line["finish"]), ("replay", got["id"], "stop"), "whose turn")
        equal((line["input_tokens"], line["cached_tokens"], line["output_tokens"]),
              (got["usage"]["input_tokens"], got["usage"]["input_tokens_details"]["cached_tokens"], got["usage"]["output_tokens"]), "usage")
        need(line["bytes"] > len(plain.body), "bytes, with the head")
        need(line["decode_ms"] > 1 and line["total_ms"] >= line["decode_ms"] + line["prefill_ms"] + line["queue_ms"] - 0.3, f"times {line}")
        sockets = [line for line in lines if line["method"] == "WS"]
        equal(sorted(line["status"] for line in sockets), [200, 200, 400, 499], "lines of the socket")
        equal(sorted(line["finish"] for line in sockets if "finish" in line), ["cancelled", "cancelled", "stop"], "turns of the socket")
        need(all(line["request_id"] for line in sockets if line["status"] == 200), "ids of the socket's turns")
        counted = [line for line in lines if line["path"] == "/v1/responses" and line["method"] == "POST"]
        equal(len(counted), 9, "lines of POST /v1/responses")
        server.start()


@case
def who_goes_is_logged_as_gone():
    with Server({"replay": SCRIPT}) as server:
        connection = http.client.HTTPConnection(server.host, int(server.port))
        connection.request("POST", "/v1/responses", json.dumps({"model": "replay", "input": "endless", "stream": True, "disconnect": "cancel"}),
                           {"Content-Type": "application/json"})
        connection.getresponse().read(200)
        connection.close()
        until(server, "the turn does not end", lambda m: m["pawl_request_success_total", (("finished_reason", "cancelled"), *MODEL)] == 1)
        end = time.monotonic() + 10 * SLOWNESS
        while not (line := [one for one in lines_of(server) if one["status"] == 499]):
            need(time.monotonic() < end, "no line with the status 499")
            time.sleep(0.02)
        equal((line[0]["finish"], line[0]["path"]), ("cancelled", "/v1/responses"), "whose turn")


@case
def levels_and_limits_of_the_log():
    with Server({"replay": SCRIPT}, "--log-level", "warn") as server:
        server.create(input="hello")
        server.stream(input="break")
        equal({line["level"] for line in lines_of(server, None)} - {"warn", "error"}, set(), "levels")
    with Server({"replay": SCRIPT}, "--log-access", "false") as server:
        server.create(input="hello")
        equal(lines_of(server), [], "access lines")
        need(lines_of(server, None), "other lines")
    with Server({"replay": SCRIPT}, "--log-limit", "5") as server:
        threads = [threading.Thread(target=lambda: [server.http("GET", "/livez") for _ in range(20)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1.1)
        got = scrape(server)
        need(got["pawl_log_dropped_total", ()] > 0, "nothing was left out")
        need(any("left out" in line["message"] for line in lines_of(server, "log")), "nobody says so")


if __name__ == "__main__":
    main()
