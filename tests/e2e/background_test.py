"""Background responses: asked for, polled, read again, cancelled, and found after kill -9.

SPDX-License-Identifier: Apache-2.0
"""
import json
import time

from common import (
    SLOWNESS, Server, ask, case, check_error, equal, need, receive, run_against, send, strict_response, text_of)
from resuming import SCRIPT, again, create, ended, gauge, get, nothing_runs, refused, until, use

server = use(Server({"replay": SCRIPT}))

# -------------------------------------------------------------------- background


def sdk(of=None):
    import openai
    return openai.OpenAI(base_url=(of or server).base_url, api_key="any", max_retries=0, timeout=60 * SLOWNESS)


@case
def the_sdk_asks_in_the_background():
    client = sdk()
    got = client.responses.create(model="replay", input="slowly", background=True, metadata={"a": "b"})
    equal((got.status, got.background, got.metadata, got.output), ("queued", True, {"a": "b"}, []), "what comes at once")
    states = {got.status}
    while got.status in ("queued", "in_progress"):
        got = client.responses.retrieve(got.id)
        states.add(got.status)
        time.sleep(0.01)
    need("in_progress" in states, f"it was {states}")
    equal((got.status, got.output_text, got.background), ("completed", "It takes a while to say all of this.", True), "the end")
    equal(text_of(server.create(input="hello", previous_response_id=got.id)), "Yes, all is well.", "a turn that follows")


@case
def the_sdk_reads_it_again():
    client = sdk()
    events = []
    for event in client.responses.create(model="replay", input="slowly", background=True, stream=True):
        events.append(event)
        if event.sequence_number == 7:
            break
    equal([e.type for e in events[:3]], ["response.created", "response.queued", "response.in_progress"], "how it begins")
    equal([e.response.status for e in events[:3]], ["queued", "queued", "in_progress"], "states")
    events += client.responses.retrieve(events[0].response.id, stream=True, starting_after=7)
    equal([e.sequence_number for e in events], list(range(len(events))), "numbers")
    equal("".join(e.delta for e in events if e.type == "response.output_text.delta"), events[-1].response.output_text, "text")
    equal(events[-1].response.status, "completed", "status")
    equal(list(client.responses.retrieve(events[0].response.id, stream=True)), events, "all of it again")


@case
def the_sdk_cancels():
    client = sdk()
    got = client.responses.create(model="replay", input="endless", background=True, max_output_tokens=3000)
    until("a token", lambda: client.responses.retrieve(got.id).status == "in_progress")
    equal([i.content[0].text for i in client.responses.input_items.list(got.id)], ["endless"], "its input, while it runs")
    time.sleep(0.05)
    one = client.responses.cancel(got.id)
    equal(one.status, "cancelled", "status")
    equal(client.responses.cancel(got.id), one, "the second time")
    equal(client.responses.retrieve(got.id), one, "what is stored")
    done = client.responses.create(model="replay", input="hello", background=True)
    until("its end", lambda: client.responses.retrieve(done.id).status == "completed")
    equal(client.responses.cancel(done.id).status, "completed", "one that has ended")
    plain = server.create(input="hello")
    refused(f"/v1/responses/{plain['id']}/cancel", 400, "invalid_value", method="POST")
    refused("/v1/responses/resp_nope/cancel", 404, None, method="POST")
    stream = create(input="slowly")
    refused(f"/v1/responses/{stream.next()['response']['id']}/cancel", 400, "invalid_value", method="POST")
    stream.leave()


@case
def background_needs_nobody():
    with Server({"replay": SCRIPT}, "--detach-seconds", "1") as impatient:
        got = impatient.create(input="endless", max_output_tokens=500, background=True)
        stream = create(impatient, input="endless", max_output_tokens=500, background=True)
        other = stream.take(5)[0]["response"]["id"]
        stream.leave()
        ws = impatient.connect()
        send(ws, input="endless", max_output_tokens=500, background=True)
        third = receive(ws, ("response.queued",))[0]["response"]["id"]
        ws.abort()
        time.sleep(2)  # nobody looks
        for response_id in (got["id"], other, third):
            equal(ended(response_id, impatient)["incomplete_details"], {"reason": "max_output_tokens"}, "how it ended")
        equal(gauge("pawl_detached_total", impatient), 0, "detached")


@case
def background_over_a_socket():
    with server.connect() as ws:
        final = ask(ws, input="slowly", background=True, stream_id="a")
        equal((final["status"], final["background"]), ("completed", True), "the end")
        send(ws, input="endless", max_output_tokens=3000, background=True)
        here = receive(ws, ("response.output_text.delta",))[0]["response"]["id"]
        ws.send(json.dumps({"type": "response.cancel", "response_id": here}))
        equal(receive(ws)[-1]["response"]["status"], "cancelled", "one of this socket")
        elsewhere = server.create(input="endless", max_output_tokens=3000, background=True)["id"]
        ws.send(json.dumps({"type": "response.cancel", "response_id": elsewhere, "stream_id": "x"}))
        end = receive(ws)
        equal([(e["type"], e["response"]["status"], e["stream_id"]) for e in end],
              [("response.incomplete", "cancelled", "x")], "the closing event of one that runs elsewhere")
        whole = again(elsewhere).rest()
        equal(end[0]["sequence_number"], whole[-1]["sequence_number"], "its number")
        ws.send(json.dumps({"type": "response.cancel", "response_id": elsewhere}))
        check_error(receive(ws)[-1], "response_not_found", 400, "response_id")


@case
def background_in_a_conversation():
    client = sdk()
    conversation = client.conversations.create()
    for n in range(3):
        got = client.responses.create(model="replay", input="slowly" if n else "hello", conversation=conversation.id, background=True)
        until("its end", lambda: client.responses.retrieve(got.id).status == "completed")
        equal(len(list(client.conversations.items.list(conversation.id))), 2 * (n + 1), "items of the conversation")
    equal(server.http("DELETE", f"/v1/responses/{got.id}").status, 200, "DELETE of its head")
    last = client.responses.create(model="replay", input="hello", conversation=conversation.id, background=True)
    until("its end", lambda: client.responses.retrieve(last.id).status == "completed")


@case
def background_is_refused_where_it_means_nothing():
    for more, param in (({"store": False}, "background"), ({"disconnect": "cancel"}, "disconnect")):
        equal(server.create(400, input="x", background=True, **more)["error"]["param"], param, "param")


# --------------------------------------------------------------------- kill -9


@case
def what_was_accepted_is_found_after_a_kill():
    with Server({"replay": SCRIPT}) as brief:
        done = brief.create(input="hello")
        closing = brief.stream(input="hello")[-1]["response"]
        plain = create(brief, input="endless", max_output_tokens=3000)
        told = plain.take(6)[0]["response"]["id"]
        ids = [brief.create(input="endless", max_output_tokens=3000, background=True)["id"] for _ in range(20)]
        brief.kill()
        brief.start()
        for response_id in ids:
            got = get(response_id, brief)
            strict_response(got)
            equal((got["status"], got["output"], got["error"]["code"]), ("failed", [], "server_error"), "status after the kill")
            need("stopped" in got["error"]["message"], "a reason")
            refused(f"/v1/responses/{response_id}?stream=true", 409, "cursor_expired", "starting_after", brief)
            equal(brief.http("POST", f"/v1/responses/{response_id}/cancel").json(), got, "cancelling it")
        equal(get(done["id"], brief), done, "a finished one")
        equal(get(closing["id"], brief), closing, "one whose closing event was received")
        get(told, brief, 404)
        equal(brief.create(400, input="x", previous_response_id=ids[0])["error"]["code"], "previous_response_not_found", "as a parent")
        equal(brief.http("DELETE", f"/v1/responses/{ids[0]}").status, 200, "DELETE")
        equal(gauge("pawl_event_logs", brief), 0, "logs after the start")


@case
def nothing_is_left():
    nothing_runs()


if __name__ == "__main__":
    run_against(server)
