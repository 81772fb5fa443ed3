"""/v1/responses over HTTP: the object, the stream, what is stored, what is listed.

SPDX-License-Identifier: Apache-2.0
"""
from common import Server, case, check_stream, equal, events_of, need, run_against, strict, text_of

WEATHER = {"type": "function", "name": "get_weather", "description": "Weather of a city",
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
COUNT = "one two three STOP four five"

server = Server({"replay": {"context": 4096, "replies": [
    {"when": "greet", "text": "Hello there."},
    # The euro sign and the owl come byte by byte: no delta may show half of one.
    {"when": "price", "pieces": ["It costs ", 0xE2, 0x82, 0xAC, "5 ", 0xF0, 0x9F, 0xA6, 0x89, "."]},
    {"when": "damaged", "pieces": ["a", 0xE2, 0x82, "b", 0xFF, "c", 0xF0, 0x9F]},
    {"when": "It is raining", "text": "Take an umbrella."},
    {"when": "Oslo", "text": CALL},
    {"when": "both", "text": "Let me look.\n" + CALL},
    {"when": "two calls", "text": CALL + "\n" + CALL.replace("Oslo", "Bergen")},
    {"when": "count", "text": COUNT},
    {"when": "nothing", "text": ""},
]}})


def kinds(events):
    """The event types, repeated deltas once."""
    out = []
    for kind in (event["type"].removeprefix("response.") for event in events):
        if not (out and out[-1] == kind and kind.endswith(".delta")):
            out.append(kind)
    return out


def deltas(events):
    return [e["delta"] for e in events if e["type"] == "response.output_text.delta"]


MESSAGE = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done",
           "content_part.done", "output_item.done"]
CALLED = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]


@case
def a_message_comes_in_the_documented_order():
    events = server.stream(input="greet me")
    final = check_stream(events, terminal="response.completed")
    equal(kinds(events), ["created", "in_progress", *MESSAGE, "completed"], "order of events")
    equal(text_of(final), "Hello there.", "text")
    equal(final["status"], "completed", "status")
    need(final["id"].startswith("resp_") and final["output"][0]["id"].startswith("msg_"), "ids")
    equal(final["completed_at"] >= final["created_at"], True, "times")


@case
def plain_and_streamed_agree():
    one = server.create(input="greet me", temperature=0)
    two = check_stream(server.stream(input="greet me", temperature=0))
    equal(text_of(one), text_of(two), "text")
    equal(one["usage"]["output_tokens"], two["usage"]["output_tokens"], "output_tokens")
    equal(one["usage"]["input_tokens"], two["usage"]["input_tokens"], "input_tokens")


@case
def a_character_is_never_split():
    events = server.stream(input="the price please")
    equal(text_of(check_stream(events)), "It costs €5 🦉.", "text")
    need(not any("\ufffd" in d for d in deltas(events)), f"a split character in {deltas(events)!r}")


@case
def bytes_that_are_no_text_become_replacement_characters():
    text = text_of(check_stream(server.stream(input="damaged please")))
    need(text.startswith("a\ufffd") and "b\ufffd" in text and "c" in text, f"text {text!r}")


@case
def a_tool_call_is_an_item_and_not_text():
    events = server.stream(input="Weather in Oslo?", tools=[WEATHER])
    final = check_stream(events, terminal="response.completed")
    equal(kinds(events), ["created", "in_progress", *CALLED, "completed"], "order of events")
    call = final["output"][0]
    equal((call["name"], call["arguments"].replace(" ", "")), ("get_weather", '{"city":"Oslo"}'), "call")
    need(call["call_id"].startswith("call_") and call["id"].startswith("fc_"), "ids of the call")
    equal(final["tools"][0]["name"], "get_weather", "echo of the tools")
    done = next(e for e in events if e["type"] == "response.function_call_arguments.done")
    equal(done["name"], "get_weather", "name in arguments.done")


@case
def text_before_a_call_is_its_own_item():
    events = server.stream(input="both please", tools=[WEATHER])
    final = check_stream(events)
    equal([i["type"] for i in final["output"]], ["message", "function_call"], "items")
    equal(text_of(final).strip(), "Let me look.", "text")
    need("tool_call" not in "".join(deltas(events)), "markup of the call in the text")


@case
def two_calls_are_two_items():
    final = check_stream(server.stream(input="two calls please", tools=[WEATHER]))
    equal(["Oslo" in i["arguments"] for i in final["output"]], [True, False], "calls in order")
    equal(len({i["call_id"] for i in final["output"]}), 2, "distinct call ids")


@case
def parallel_tool_calls_false_gives_one():
    final = server.create(input="two calls please", tools=[WEATHER], parallel_tool_calls=False)
    equal(len(final["output"]), 1, "number of calls")
    equal(final["parallel_tool_calls"], False, "echo")


@case
def a_call_is_answered_in_the_next_turn():
    one = server.create(input="Weather in Oslo?", tools=[WEATHER])
    call = one["output"][0]
    two = server.create(previous_response_id=one["id"], tools=[WEATHER], input=[
        {"type": "function_call_output", "call_id": call["call_id"], "output": "It is raining"}])
    equal(text_of(two), "Take an umbrella.", "text")
    need(two["usage"]["input_tokens"] > one["usage"]["input_tokens"], "the first turn is not in the prompt")
    no = server.create(400, previous_response_id=one["id"],
                       input=[{"type": "function_call_output", "call_id": "call_nope", "output": "x"}])
    need("call_nope" in no["error"]["message"], f"message {no['error']['message']!r}")


@case
def a_stop_string_ends_the_reply_and_is_left_out():
    for stop in ("STOP", ["never", "STOP"]):
        events = server.stream(input="count", stop=stop)
        final = check_stream(events, terminal="response.completed")
        equal(text_of(final), "one two three ", "text")
        need("S" not in "".join(deltas(events)), "a part of the stop string got out")


@case
def a_limit_makes_it_incomplete():
    events = server.stream(input="count", max_output_tokens=5)
    final = check_stream(events, terminal="response.incomplete")
    equal(final["incomplete_details"], {"reason": "max_output_tokens"}, "incomplete_details")
    equal(final["usage"]["output_tokens"], 5, "output_tokens")
    equal(final["output"][0]["status"], "incomplete", "status of the cut item")
    equal(text_of(final), COUNT[:5], "text")


@case
def a_cut_call_is_not_offered_as_a_whole_one():
    final = server.create(input="Weather in Oslo?", tools=[WEATHER], max_output_tokens=50)
    equal(final["status"], "incomplete", "status")
    for item in final["output"]:
        equal(item["status"], "incomplete", "status of the cut item")


@case
def an_empty_reply_is_a_reply():
    final = check_stream(server.stream(input="nothing"), terminal="response.completed")
    equal(text_of(final), "", "text")


@case
def usage_adds_up_and_tells_what_was_cached():
    one = server.create(input="greet me, usage")
    two = server.create(input="greet me again", previous_response_id=one["id"])
    used = two["usage"]
    # All of the first prompt and of its reply but, at most, an unfinished page.
    need(used["input_tokens_details"]["cached_tokens"] >= one["usage"]["input_tokens"] - 16,
         f"cached {used['input_tokens_details']['cached_tokens']} of {used['input_tokens']}, "
         f"the first turn had {one['usage']['input_tokens']}")


@case
def what_was_asked_is_echoed():
    got = server.create(input="greet me", instructions="Be short.", temperature=0.25, top_p=0.5, max_output_tokens=99,
                        metadata={"a": "b"}, user="u", truncation="auto", tool_choice="none", tools=[WEATHER],
                        prompt_cache_key="k", safety_identifier="s", reasoning={"effort": "low"})
    want = {"instructions": "Be short.", "temperature": 0.25, "top_p": 0.5, "max_output_tokens": 99,
            "metadata": {"a": "b"}, "user": "u", "truncation": "auto", "tool_choice": "none",
            "prompt_cache_key": "k", "safety_identifier": "s", "model": "replay", "store": True, "object": "response",
            "background": False, "error": None, "previous_response_id": None}
    for key, value in want.items():
        equal(got.get(key), value, key)
    equal(got["reasoning"]["effort"], "low", "reasoning.effort")


@case
def instructions_are_for_one_turn():
    one = server.create(input="greet me", instructions="x" * 400)
    two = server.create(input="greet me", previous_response_id=one["id"])
    need(two["usage"]["input_tokens"] < one["usage"]["input_tokens"], "the instructions were inherited")
    equal(two["instructions"], None, "echo")


@case
def stored_responses_can_be_read_and_removed():
    one = server.create(input=[{"role": "user", "content": "greet"}, {"role": "user", "content": "me"}])
    path = f"/v1/responses/{one['id']}"
    equal(server.http("GET", path).json(), one, "the stored response")
    page = server.http("GET", f"{path}/input_items?order=asc").json()
    from openai.types.responses import ResponseItemList
    strict(ResponseItemList, page, "input_items")
    equal([i["content"][0]["text"] for i in page["data"]], ["greet", "me"], "input items, ascending")
    down = server.http("GET", f"{path}/input_items").json()
    equal([i["id"] for i in down["data"]], [i["id"] for i in reversed(page["data"])], "descending is the default")
    first = server.http("GET", f"{path}/input_items?order=asc&limit=1").json()
    equal((len(first["data"]), first["has_more"]), (1, True), "a page of one")
    rest = server.http("GET", f"{path}/input_items?order=asc&after={first['last_id']}").json()
    equal(([i["id"] for i in rest["data"]], rest["has_more"]), ([page["data"][1]["id"]], False), "the page after it")
    gone = server.http("DELETE", path)
    equal((gone.status, gone.json()["deleted"], gone.json()["id"]), (200, True, one["id"]), "DELETE")
    for method in ("GET", "DELETE"):
        equal(server.http(method, path).status, 404, f"{method} of a removed response")
    no = server.create(400, input="x", previous_response_id=one["id"])
    equal(no["error"]["code"], "previous_response_not_found", "code")


@case
def store_false_leaves_nothing():
    one = server.create(input="greet me", store=False)
    equal(one["store"], False, "store")
    equal(server.http("GET", f"/v1/responses/{one['id']}").status, 404, "GET")


@case
def models_are_listed():
    page = server.http("GET", "/v1/models").json()
    equal((page["object"], [m["id"] for m in page["data"]]), ("list", ["replay"]), "models")
    one = server.http("GET", "/v1/models/replay").json()
    equal((one["id"], one["object"]), ("replay", "model"), "one model")
    need(isinstance(one["created"], int) and one["owned_by"], "created, owned_by")
    equal(server.http("GET", "/v1/models/none").status, 404, "an unknown model")


@case
def paths_and_methods():
    equal(server.http("GET", "/health").status, 200, "/health")
    equal(server.http("POST", "/responses", {"model": "replay", "input": "greet me"}).status, 200, "without /v1")
    no = server.http("GET", "/v1/nothing")
    equal((no.status, no.json()["error"]["code"]), (404, "unknown_url"), "unknown path")
    no = server.http("PUT", "/v1/responses", {})
    equal((no.status, no.json()["error"]["code"]), (405, "method_not_allowed"), "wrong method")
    need(server.http("GET", "/v1/responses").status in (405, 426), "GET without upgrade")
    need(server.http("GET", "/health").headers["x-request-id"], "no x-request-id")


@case
def chunked_bodies_and_expect_continue():
    import http.client
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    text = b'{"model": "replay", "stream": true, "input": "greet me"}'
    for _ in range(2):  # on one connection: keep-alive
        connection.request("POST", "/v1/responses", iter([text[:20], text[20:]]),
                           {"Content-Type": "application/json; charset=utf-8"}, encode_chunked=True)
        check_stream(events_of(connection.getresponse().read()))
    connection.close()


if __name__ == "__main__":
    run_against(server)
