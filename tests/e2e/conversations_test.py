"""/v1/conversations, and turns on them: with the official client, over HTTP and WebSocket.

SPDX-License-Identifier: Apache-2.0
"""
import json

import jsonschema
import openai
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItemList

from common import (
    ROOT, Server, ask, case, check_error, equal, need, receive, run_against, send, strict)

SCHEMA = json.loads((ROOT / "schemas/conversations.schema.json").read_text())
CALL = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
TOOL = {"type": "function", "name": "get_time", "parameters": {"type": "object", "properties": {}}}

server = Server({"replay": {"context": 8192, "replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "the time", "text": CALL},
    {"when": "fail", "text": "abc", "fail_at": 2},
    {"text": "Yes, and a few words more."},
]}})


def client():
    return openai.OpenAI(base_url=server.base_url, api_key="any", max_retries=0)


def say(role, text):
    return {"role": role, "content": text}


def texts(conversation, order="asc"):
    """All texts in it, by pages of three, each page checked."""
    out, query = [], f"limit=3&order={order}"
    after = ""
    while True:
        reply = server.http("GET", f"/v1/conversations/{conversation}/items?{query}{after}")
        equal(reply.status, 200, f"status ({reply.body[:200]!r})")
        page = reply.json()
        jsonschema.validate(page, SCHEMA)
        if page["data"]:
            strict(ConversationItemList, page, "a page of items")
        out += [part.get("text") for item in page["data"] for part in item.get("content", [])]
        if not page["has_more"]:
            return out
        after = f"&after={page['last_id']}"


def refused(reply, status, code=None):
    equal(reply.status, status, f"status ({reply.body[:200]!r})")
    equal(reply.json()["error"]["code"], code, f"code ({reply.body[:200]!r})")


@case
def the_official_client_does_all_of_it():
    c = client()
    made = c.conversations.create(metadata={"title": "one"}, items=[say("system", "Be kind."), say("user", "First.")])
    strict(Conversation, made.to_dict(), "the conversation")
    jsonschema.validate(made.to_dict(), SCHEMA)
    need(made.id.startswith("conv_"), f"id {made.id}")
    equal(c.conversations.retrieve(made.id), made, "the same, read")
    changed = c.conversations.update(made.id, metadata={"a": "b"})
    equal((changed.metadata, changed.created_at), ({"a": "b"}, made.created_at), "the same, changed")
    added = c.conversations.items.create(made.id, items=[say("assistant", "Hm."), say("user", "Second.")])
    jsonschema.validate(added.to_dict(), SCHEMA)
    equal([i.role for i in added.data], ["assistant", "user"], "what was added")
    equal((added.first_id, added.last_id, added.has_more), (added.data[0].id, added.data[1].id, False), "ends of the list")
    equal([i.content[0].text for i in c.conversations.items.list(made.id, order="asc")],
          ["Be kind.", "First.", "Hm.", "Second."], "all items")
    equal([i.content[0].text for i in c.conversations.items.list(made.id, limit=1)],
          ["Second.", "Hm.", "First.", "Be kind."], "all items, page by page from the end")
    equal(c.conversations.items.retrieve(added.last_id, conversation_id=made.id).content[0].text, "Second.", "one item")
    equal(c.conversations.items.delete(added.first_id, conversation_id=made.id).id, made.id, "the answer to a deletion")
    equal(texts(made.id), ["Be kind.", "First.", "Second."], "without the one that was deleted")
    gone = c.conversations.delete(made.id)
    strict(ConversationDeletedResource, gone.to_dict(), "the answer to a deletion")
    jsonschema.validate(gone.to_dict(), SCHEMA)
    for ask_for in (lambda: c.conversations.retrieve(made.id), lambda: c.conversations.delete(made.id),
                    lambda: c.conversations.items.list(made.id)):
        try:
            ask_for()
        except openai.NotFoundError:
            continue
        raise AssertionError("a deleted conversation is found")


@case
def turns_add_up():
    c = client()
    made = c.conversations.create()
    sizes = []
    for n in range(4):
        one = c.responses.create(model="replay", input=f"Turn {n}.", conversation=made.id if n % 2 else {"id": made.id})
        equal((one.conversation.id, one.previous_response_id), (made.id, None), "the echo")
        sizes.append((one.usage.input_tokens, one.usage.input_tokens_details.cached_tokens))
        equal(server.http("GET", f"/v1/responses/{one.id}").json()["conversation"], {"id": made.id}, "stored echo")
    need(all(sizes[i + 1][1] >= sizes[i][0] for i in range(3)), f"input and cached tokens {sizes}")
    equal(texts(made.id), [t for n in range(4) for t in (f"Turn {n}.", "Yes, and a few words more.")], "what was said")
    with c.responses.stream(model="replay", input="Last.", conversation=made.id) as stream:
        final = stream.get_final_response()
    equal(final.conversation.id, made.id, "echo of a stream")
    equal(len(texts(made.id)), 10, "texts after five turns")


@case
def the_same_over_a_socket():
    made = client().conversations.create(items=[say("user", "Before.")]).id
    with server.connect() as ws:
        one = ask(ws, input="One.", conversation=made)
        two = ask(ws, input="Two.", conversation={"id": made})
        equal(two["conversation"], {"id": made}, "echo")
        need(two["usage"]["input_tokens_details"]["cached_tokens"] >= one["usage"]["input_tokens"], "cached tokens")
        send(ws, input="x", conversation="conv_nowhere")
        check_error(receive(ws)[-1], None, 404, "conversation")
        send(ws, input="x", conversation=made, previous_response_id=one["id"])
        check_error(receive(ws)[-1], "invalid_value", 400, "conversation")
        side = ask(ws, input="Aside.", previous_response_id=one["id"])
        equal(side["conversation"], None, "conversation of a turn beside it")
    equal(texts(made), ["Before.", "One.", "Yes, and a few words more.", "Two.", "Yes, and a few words more."], "what was said")
    equal(texts(made, "desc"), texts(made)[::-1], "the other way round")


@case
def one_at_a_time():
    made = client().conversations.create().id
    with server.connect() as ws, server.connect() as other:
        send(ws, input="endless", conversation=made)
        running = receive(ws, ("response.output_text.delta",))[0]["response"]["id"]
        reply = server.http("POST", "/v1/responses", {"model": "replay", "input": "x", "conversation": made})
        refused(reply, 409, "conversation_locked")
        equal(reply.headers["retry-after"], "1", "Retry-After")
        send(other, input="x", conversation=made)
        check_error(receive(other)[-1], "conversation_locked", 409, "conversation")
        refused(server.http("POST", f"/v1/conversations/{made}/items", {"items": [say("user", "x")]}), 409, "conversation_locked")
        refused(server.http("POST", f"/v1/conversations/{made}", {"metadata": {}}), 409, "conversation_locked")
        refused(server.http("DELETE", f"/v1/conversations/{made}"), 409, "conversation_locked")
        equal(server.http("GET", f"/v1/conversations/{made}").status, 200, "status of reading it")
        equal(server.http("POST", "/v1/responses/input_tokens", {"model": "replay", "conversation": made, "input": "x"}).status,
              200, "status of counting")
        ws.send(json.dumps({"type": "response.cancel", "response_id": running}))
        equal(receive(ws)[-1]["response"]["status"], "cancelled", "status of what was cancelled")
        equal(texts(made), [], "a cancelled turn is not in the conversation")
        ask(ws, input="Now.", conversation=made)
    equal(texts(made)[0], "Now.", "the first thing that was said")


@case
def the_official_client_waits_for_its_turn():
    """409 is what it tries again by itself."""
    made = client().conversations.create().id
    with server.connect() as ws:
        send(ws, input="endless", conversation=made, max_output_tokens=100)
        receive(ws, ("response.output_text.delta",))
        patient = openai.OpenAI(base_url=server.base_url, api_key="any", max_retries=5)
        patient.responses.create(model="replay", input="After it.", conversation=made)
        receive(ws)
    equal([t[:9] for t in texts(made)], ["endless", "012345678", "After it.", "Yes, and "], "both turns, in order")


@case
def a_failed_turn_leaves_it_as_it_was():
    made = client().conversations.create(items=[say("user", "Stays.")]).id
    reply = server.http("POST", "/v1/responses", {"model": "replay", "input": "fail", "conversation": made})
    equal(reply.status, 500, "status of a failed turn")
    equal(texts(made), ["Stays."], "items after a failure")
    server.create(input="Again.", conversation=made)
    equal(texts(made), ["Stays.", "Again.", "Yes, and a few words more."], "items after the next turn")


@case
def tools_go_on_in_a_conversation():
    made = client().conversations.create().id
    one = server.create(input="the time please", tools=[TOOL], conversation=made)
    call = one["output"][0]
    equal(call["type"], "function_call", "type of the output")
    out = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
    added = server.http("POST", f"/v1/conversations/{made}/items", {"items": [out]})
    equal(added.status, 200, f"status ({added.body[:200]!r})")
    two = server.create(tools=[TOOL], conversation=made, input="Go on.")
    need(two["usage"]["input_tokens"] > one["usage"]["input_tokens"], "input tokens of the second turn")
    items = server.http("GET", f"/v1/conversations/{made}/items?order=asc").json()["data"]
    equal([i["type"] for i in items], ["message", "function_call", "function_call_output", "message", "message"], "types of all items")
    equal(len({i["id"] for i in items}), 5, "ids of their own")
    stray = dict(out, call_id="call_nowhere")
    refused(server.http("POST", f"/v1/conversations/{made}/items", {"items": [stray]}), 400, "invalid_value")


@case
def an_edit_costs_what_comes_after_it():
    made = client().conversations.create().id
    answers = [server.create(input=f"Question {n}, with some words.", conversation=made) for n in range(4)]
    items = server.http("GET", f"/v1/conversations/{made}/items?order=asc").json()["data"]
    third = items[4]
    equal(third["content"][0]["text"], "Question 2, with some words.", "the item")
    equal(server.http("DELETE", f"/v1/conversations/{made}/items/{third['id']}").status, 200, "status")
    need(third["id"] not in str(server.http("GET", f"/v1/conversations/{made}/items").json()), "it is still there")
    after = server.create(input="And now?", conversation=made)
    cached, before = after["usage"]["input_tokens_details"]["cached_tokens"], answers[1]["usage"]
    need(cached >= before["input_tokens"], f"{cached} cached tokens, {before} before the edit")
    need(after["usage"]["input_tokens"] < answers[3]["usage"]["total_tokens"] + 60, "tokens after an edit")
    equal(texts(made)[4:6], ["Yes, and a few words more.", "Question 3, with some words."], "what stands where it stood")
    equal(server.http("GET", f"/v1/responses/{answers[3]['id']}").status, 200, "an earlier response is still there")
    next_one = server.create(input="Once more.", conversation=made)
    need(next_one["usage"]["input_tokens_details"]["cached_tokens"] >= after["usage"]["input_tokens"], "cached tokens of the next turn")


@case
def forks_share_what_was_said():
    c = client()
    made = c.conversations.create().id
    one = server.create(input="One.", conversation=made)
    two = server.create(input="Two.", conversation=made)
    c.conversations.items.create(made, items=[say("user", "Unanswered.")])
    whole = c.conversations.create(extra_body={"fork": {"conversation": made}}).id
    first = c.conversations.create(metadata={"k": "v"}, items=[say("user", "Other.")],
                                   extra_body={"fork": {"conversation": made, "response": one["id"]}}).id
    equal(texts(whole), texts(made), "a whole fork")
    equal(texts(first), ["One.", "Yes, and a few words more.", "Other."], "a fork of the first turn")
    on = server.create(input="On.", conversation=first)
    need(on["usage"]["input_tokens_details"]["cached_tokens"] >= one["usage"]["input_tokens"], "cached tokens of a fork")
    equal(len(texts(made)), 5, "the first one is as it was")
    for fork, code in (({"conversation": "conv_nowhere"}, 404), ({"conversation": whole, "response": on["id"]}, 404),
                       ({}, 400), ({"conversation": 7}, 400), ("x", 400)):
        equal(server.http("POST", "/v1/conversations", {"fork": fork}).status, code, f"status of {fork}")
    equal(server.http("DELETE", f"/v1/conversations/{made}").status, 200, "status")
    equal(server.http("GET", f"/v1/responses/{two['id']}").status, 404, "a response of a deleted conversation")
    equal(len(texts(whole)), 5, "a fork outlives what it was made of")
    ask_on = server.create(input="Still there?", conversation=whole)
    need(ask_on["usage"]["input_tokens"] > two["usage"]["input_tokens"], "history of a fork")


@case
def ids_are_the_servers():
    made = client().conversations.create().id
    item = {"type": "message", "id": "msg_mine", **say("user", "x")}
    server.create(input=[item, item], conversation=made)
    server.http("POST", f"/v1/conversations/{made}/items", {"items": [item]})
    items = server.http("GET", f"/v1/conversations/{made}/items").json()["data"]
    equal(len({i["id"] for i in items}), 4, "ids of four items")
    need("msg_mine" not in {i["id"] for i in items}, "a client's id")


@case
def the_list_of_them():
    made = [client().conversations.create().id for _ in range(5)]
    page = server.http("GET", "/v1/conversations?limit=2").json()
    jsonschema.validate(page, SCHEMA)
    need(page["has_more"], "more follow")
    seen, after = [], ""
    while True:
        page = server.http("GET", f"/v1/conversations?limit=3&order=asc{after}").json()
        seen += [c["id"] for c in page["data"]]
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    equal(len(set(seen)), len(seen), "each once")
    need(set(made) <= set(seen), "all of them")
    refused(server.http("GET", "/v1/conversations?after=conv_nowhere"), 400, "invalid_value")
    refused(server.http("GET", "/v1/conversations?limit=0"), 400, "invalid_value")


@case
def what_is_refused():
    made = client().conversations.create().id
    many = {f"k{i}": "v" for i in range(17)}
    for path, body, status in (
            ("", {"metadata": many}, 400), ("", {"metadata": {"a" * 65: "b"}}, 400), ("", {"metadata": {"a": "b" * 513}}, 400),
            ("", {"metadata": {"a": 1}}, 400), ("", {"items": [say("user", "x")] * 21}, 400), ("", {"items": "x"}, 400),
            ("", {"items": [{"type": "nonsense"}]}, 400), ("", [1], 400), (f"/{made}", {}, 400), (f"/{made}/items", {}, 400),
            (f"/{made}/items", {"items": [{"role": "user"}]}, 400), ("/conv_nowhere", {"metadata": {}}, 404),
            ("/conv_nowhere/items", {"items": []}, 404), ("/" + "c" * 100, {"metadata": {}}, 404)):
        equal(server.http("POST", f"/v1/conversations{path}", body).status, status, f"status of {path} {str(body)[:80]}")
    equal(server.http("GET", f"/v1/conversations/{made}/items/msg_nowhere").status, 404, "status of an unknown item")
    equal(server.http("DELETE", f"/v1/conversations/{made}/items/msg_nowhere").status, 404, "status of an unknown item")
    equal(server.http("POST", f"/v1/conversations/{made}", {"metadata": None}).json()["metadata"], {}, "metadata null")
    equal(server.http("POST", "/v1/conversations", b"").status, 200, "status of no body")
    refused(server.http("POST", "/v1/responses", {"model": "replay", "input": "x", "conversation": made, "store": False}), 400, "invalid_value")


@case
async def a_session_of_the_agents_sdk():
    from agents.memory import OpenAIConversationsSession
    from agents.memory.openai_conversations_session import start_openai_conversations_session
    asking = openai.AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0)
    made = await start_openai_conversations_session(asking)
    session = OpenAIConversationsSession(conversation_id=made, openai_client=asking)
    await session.add_items([say("user", f"Line {n}.") for n in range(30)])
    equal(len(await session.get_items()), 30, "items of the session")
    equal((await session.pop_item())["content"][0]["text"], "Line 29.", "the one that was taken back")
    equal((await session.get_items(2))[1]["content"][0]["text"], "Line 28.", "the last one now")
    server.create(conversation=made, input="Well?")
    equal((await session.get_items(1))[0]["role"], "assistant", "role of the last one")
    await session.clear_session()
    equal(server.http("GET", f"/v1/conversations/{made}").status, 404, "status after clear_session()")


@case
def a_deleted_head_goes_on():
    made = client().conversations.create().id
    one = server.create(input="One.", conversation=made)
    equal(server.http("DELETE", f"/v1/responses/{one['id']}").status, 200, "status")
    equal(server.http("GET", f"/v1/responses/{one['id']}").status, 404, "status of the deleted one")
    two = server.create(input="Two.", conversation=made)
    need(two["usage"]["input_tokens_details"]["cached_tokens"] >= one["usage"]["input_tokens"], "cached tokens")
    equal(len(texts(made)), 4, "texts")


run_against(server)
