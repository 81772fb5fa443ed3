"""A resumed turn pays only for its new tokens, whatever happened in between, and says exactly
what it would have said.

The same conversation goes through a server that nobody disturbs and through one that is killed
with -9, that has no memory for state, whose kv.db is damaged, whose sequences are closed. A
small random llama answers; the last case asks the real model, where there is one.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import random
import tempfile

import tiny_model
from common import HERMES, SANITIZER, SMOLLM2, Server, Skip, case, case_timeout, equal, main, need, text_of
from conversations import answer, cached, measured, plan, play, prose, rows_of, same, settled, spoil, told

case_timeout(180)
FOLDER = tempfile.TemporaryDirectory(prefix="pawl-resume-")
MODEL = tiny_model.write(pathlib.Path(FOLDER.name) / "tiny.gguf", HERMES)
GREEDY = {"temperature": 0}
SAMPLED = {"temperature": 1.0, "top_k": 40, "seed": 12}


def serve(*args, model=MODEL):
    return Server({"tiny": model}, *args)


def say(server, text, parent=None, **request):
    request = {"model": "tiny", "input": text, "max_output_tokens": 40, **GREEDY, **request}
    if parent:
        request["previous_response_id"] = parent["id"]
    return answer(server, request)


def crash(server):
    settled(server)
    server.kill()
    server.start()


def words(n, seed=1):
    return prose(random.Random(seed), n)


def follows_cheaply(one, two, share=0.98):
    """Whether two, which follows one, found nearly all that they share: one's whole timeline."""
    shared = one["usage"]["total_tokens"]
    need(cached(two) >= share * shared, f"{cached(two)} of {shared} shared tokens were cached")
    need(cached(two) < two["usage"]["input_tokens"], "all tokens were cached")


# What a client says, and how: greedy and sampled, with calls, with a fork.
TALK = [
    (None, {"input": words(250, 1), "max_output_tokens": 50, **GREEDY}),
    (0, {"input": words(20, 2), "max_output_tokens": 60, **SAMPLED}),
    (1, {"input": [{"type": "function_call", "call_id": "call_a", "name": "look", "arguments": "{\"at\":\"the moon\"}"},
                   {"type": "function_call_output", "call_id": "call_a", "output": words(60, 3)},
                   {"role": "user", "content": "And?"}], "max_output_tokens": 30, **GREEDY}),
    (1, {"input": words(30, 4), "max_output_tokens": 30, **SAMPLED}),  # a fork
    (2, {"input": "Go on.", "max_output_tokens": 300, **GREEDY}),      # over the ends of chunks
    (4, {"input": "And on.", "max_output_tokens": 20, **SAMPLED}),
]


def undisturbed():
    if not hasattr(undisturbed, "told"):
        with serve() as server:
            undisturbed.told = play(server, TALK, "tiny")
    return undisturbed.told


def each_turn_after_a_crash(*args):
    with serve(*args) as server:
        got = play(server, TALK, "tiny", before=lambda n: crash(server) if n else None)
        same(got, undisturbed(), f"a conversation with {args}")
        for n, (follows, _) in enumerate(TALK):
            if follows is not None:
                follows_cheaply(got[follows], got[n])
        need(measured(server, "pawl_prefix_restores_total") == 1, "the last turn was not counted as restored")
        equal(measured(server, "pawl_external_prefix_cache_hits_total"), cached(got[-1]), "tokens that were restored")
        equal(measured(server, "pawl_prefix_cache_hits_total"), cached(got[-1]), "tokens with state")
        need(measured(server, "pawl_prefix_cache_reads_total", tier="disk") >= 5, "nothing was read from the disk")
        equal(measured(server, "pawl_prefix_cache_damaged_total"), 0, "damaged chunks")


@case
def a_turn_after_a_crash_pays_for_its_new_tokens():
    each_turn_after_a_crash()


@case
def the_disk_alone_will_do():
    each_turn_after_a_crash("--kv-memory-mb", "0")


@case
def two_children_of_one_response_after_a_crash():
    with serve() as server:
        one = say(server, words(200))
        crash(server)
        children = [say(server, words(20, seed), one) for seed in (5, 6)]
        crash(server)
        again = [say(server, words(20, seed), one) for seed in (5, 6)]
    for child in children:
        follows_cheaply(one, child)
    for child, same_child in zip(children, again):  # which itself is there, too
        need(cached(same_child) >= cached(child), "less was cached the second time")
    equal(told(children), told(again), "the children's texts")


@case
def damage_costs_time_and_nothing_else():
    rng = random.Random(7)
    with serve("--kv-memory-mb", "0") as server:
        want, damaged, spoiled = undisturbed(), 0, 0

        def disturb(n):
            nonlocal damaged, spoiled
            settled(server)
            damaged += measured(server, "pawl_prefix_cache_damaged_total")
            server.kill()
            spoiled += spoil(server.data, rng, 0.5)
            server.start()

        for round_ in range(4):
            same(play(server, TALK, "tiny", before=disturb), want, f"round {round_} of damage")
        need(spoiled > 20, f"only {spoiled} rows were spoiled")
        need(damaged > 0, "no damage was counted")


@case
def no_disk_no_memory_no_difference():
    with serve("--kv-disk-mb", "0", "--kv-memory-mb", "0") as server:
        got = play(server, TALK, "tiny", before=lambda n: (server.kill(), server.start()) if n else None)
        same(got, undisturbed(), "a conversation without saved state")
        equal(sum(map(cached, got)), 0, "cached tokens of turns after restarts")
        need(not (server.data / "kv.db").exists(), "there is a kv.db")


@case
def closed_sequences_come_back_from_memory():
    with serve("--sequences", "1", "--kv-disk-mb", "0") as server:
        ones = [say(server, words(200, seed)) for seed in range(12)]
        need(measured(server, "pawl_live_evictions_total") > 0, "no sequence was closed")
        twos = [say(server, words(10, seed), one) for seed, one in enumerate(ones)]
        for one, two in zip(ones, twos):
            follows_cheaply(one, two)
        need(measured(server, "pawl_prefix_cache_reads_total", tier="memory") > 12, "nothing was read from memory")
        need(measured(server, "pawl_prefix_restores_total") >= 8, "no turn was restored")
    with serve() as server:
        equal(told(say(server, words(200, seed)) for seed in range(12)), told(ones), "texts of the first turns")


@case
def a_server_that_drains_saves_all():
    with serve() as server:
        one = say(server, words(300))
        server.stop()
        need(rows_of(server.data) >= 5, "nothing was saved at the end")
        server.start()
        follows_cheaply(one, say(server, "Go on.", one))


@case
def a_prompt_that_was_cut_off_is_continued():
    """What a long prompt had computed when the server died is there for the next try."""
    with serve("--kv-min-tokens", "64") as server:
        request = {"model": "tiny", "input": words(1300), "max_output_tokens": 8, "temperature": 0}
        whole = answer(server, request)
        crash(server)
        again = answer(server, request)
        equal(text_of(again), text_of(whole), "the text of the second try")
        need(cached(again) >= whole["usage"]["input_tokens"] - 256, f"{cached(again)} tokens of the first try were found")


@case
def a_system_part_is_there_for_others():
    """Conversations that begin with the same instructions, which end within a chunk."""
    def ask_with(server, text):
        return say(server, text, instructions=words(300, 9))

    with serve() as server:
        one = ask_with(server, "x" * 500)
        crash(server)
        two = ask_with(server, "y" * 500)
        system = len(words(300, 9))
        need(system < cached(two) < system + 100, f"{cached(two)} tokens were cached of instructions of {system}")
        equal(cached(one), 0, "cached tokens of the first")


@case
def salts_and_strangers_share_nothing():
    with serve() as server:
        prompt = words(300)
        first = say(server, prompt)
        for salt in ("a", "b"):
            equal(cached(say(server, prompt, cache_salt=salt)), 0, f"cached tokens with the new salt {salt}")
        need(cached(say(server, prompt, cache_salt="a")) > 0, "nothing is shared with the same salt")
        need(cached(say(server, prompt)) > 0, "nothing is shared without one")
        crash(server)
        equal(cached(say(server, prompt, cache_salt="c")), 0, "cached tokens with a new salt after a restart")
        need(cached(say(server, prompt, cache_salt="b")) > 1000, "nothing is restored with the same salt")
        for body in ({"messages": [{"role": "user", "content": prompt}]}, ):
            reply = server.http("POST", "/v1/chat/completions", {
                "model": "tiny", "max_tokens": 4, "temperature": 0, "cache_salt": "d", **body})
            equal(reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 0, "cached tokens of another dialect")
        equal(told([say(server, prompt)]), told([first]), "the text")
    other = tiny_model.write(pathlib.Path(FOLDER.name) / "other.gguf", HERMES, seed=2)
    with serve() as server:
        one = say(server, words(300))
        settled(server)
        server.kill()
        server.command[-1] = f"tiny={other}"
        server.start()
        equal(cached(say(server, words(300))), 0, "cached tokens with other weights")
        equal(measured(server, "pawl_prefix_cache_damaged_total"), 0, "damaged chunks")
        del one


@case
def budgets_are_kept():
    def ask_all(server):
        return [say(server, words(250, seed), max_output_tokens=10) for seed in range(14)]

    with serve("--kv-disk-mb", "0", "--kv-memory-mb", "0") as server:
        want = told(ask_all(server))
    with serve("--kv-disk-mb", "3", "--kv-memory-mb", "1", "--sequences", "1") as server:
        for _ in range(2):
            equal(told(ask_all(server)), want, "texts with little room for state")
            settled(server)
        for tier in ("memory", "disk"):
            need(measured(server, "pawl_prefix_cache_evictions_total", tier=tier) > 0, f"nothing was thrown out of {tier}")
        need(measured(server, "pawl_prefix_cache_bytes", tier="memory") <= 1 << 20, "memory is over its budget")
        need(measured(server, "pawl_prefix_cache_bytes", tier="disk") <= 3 << 20, "the disk is over its budget")
        size = measured(server, "pawl_prefix_cache_file_bytes")
        need(size <= (3 + 16) << 20, f"kv.db and its log have {size} bytes")


@case
def short_talk_is_not_kept():
    with serve("--kv-min-tokens", "4000") as server:
        one = say(server, words(300))
        crash(server)
        equal(cached(say(server, "Go on.", one)), 0, "cached tokens below the least length")


@case
def random_conversations_killed_at_random_events():
    """A small form of tests/bench/resume.py."""
    import sys
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
    import resume
    tally = resume.Tally()
    resume.campaign(MODEL, 3, 77, tally, most_turns=5, words=150)
    need(tally.kills > 3 and tally.cached > 0, f"{tally.kills} kills, {tally.cached} cached tokens")


@case
def the_real_model_goes_on_exactly():
    if SANITIZER:
        raise Skip("its arithmetic takes minutes under a sanitizer")
    if not SMOLLM2.exists():
        raise Skip(f"{SMOLLM2} is missing; tests/run.sh fetches it")
    turns = [(None, {"input": words(260, 8) + " What is this about?", "max_output_tokens": 24, **GREEDY}),
             (0, {"input": "Name one word of it.", "max_output_tokens": 24, **SAMPLED}),
             (1, {"input": "And another.", "max_output_tokens": 24, **GREEDY})]
    with serve(model=SMOLLM2) as server:
        want = play(server, turns, "tiny")
    with serve(model=SMOLLM2) as server:
        got = play(server, turns, "tiny", before=lambda n: crash(server) if n else None)
    same(got, want, "a conversation with the real model")
    for one, two in zip(got, got[1:]):
        follows_cheaply(one, two)


if __name__ == "__main__":
    main()
