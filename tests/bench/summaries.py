#!/usr/bin/env python3
"""A campaign: a folder of documents is summarised by examples/pipelines/summarise_folder.lua
while its process is killed again and again, and what comes of it is held against a run that
nobody disturbed.

    summaries.py [--documents N] [--kills K] [--model PATH] [--seed S] [--parallel N]
    summaries.py --throughput [--documents N] [--model PATH]   against a Python client

Without --model the scripted one is used, and only counts say something. What must hold: every
document is told once; no document that an earlier process finished is generated again; the
report equals that of the undisturbed run. --record appends the figures to tests/RECORDS.md.
ctest runs it with a few documents (e2e/summaries).

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e")]

from common import HERMES, PAWL, REPORT, SANITIZER, TEST_PLUGINS, Server, equal, need  # noqa: E402
from documents import damaged_pdf, pdf_of, scanned_pdf  # noqa: E402

PIPELINE = ROOT / "examples" / "pipelines" / "summarise_folder.lua"
WORDS = 30
PLACES = "harbour mill bridge market library garden school tower canal station theatre orchard".split()
PEOPLE = "fishermen weavers monks farmers sailors masons printers carpenters merchants teachers".split()
MADE_OF = "brick granite oak iron slate glass clay marble".split()


def sentences(chance, n):
    """Something to summarise: n sentences about one place."""
    place, people = chance.choice(PLACES), chance.choice(PEOPLE)
    kinds = [
        lambda: f"The {place} was built in {chance.randint(1200, 1990)} by {people} of the town.",
        lambda: f"It is made of {chance.choice(MADE_OF)} and stands {chance.randint(3, 90)} metres high.",
        lambda: f"In {chance.randint(1900, 2020)} a storm destroyed the {chance.choice(PLACES)} beside it.",
        lambda: f"About {chance.randint(2, 900)} visitors come each week, most of them {chance.choice(PEOPLE)}.",
        lambda: f"The {chance.choice(PEOPLE)} paid {chance.randint(10, 5000)} crowns for its repair.",
        lambda: f"Today the {place} belongs to the council, which opens it on {chance.choice(['Mondays', 'Sundays'])}.",
    ]
    return " ".join(chance.choice(kinds)() for _ in range(n))


def make_documents(folder, n, seed):
    """n PDFs of 1 to 3 pages; at least one damaged and one without a text layer, 2 % each."""
    chance = random.Random(seed)
    bad = max(1, n * 2 // 100)
    kinds = ["damaged"] * bad + ["scanned"] * bad + ["good"] * (n - 2 * bad)
    chance.shuffle(kinds)
    for i, kind in enumerate(kinds):
        pages = [f"Report {i}.\n\n" + sentences(chance, chance.randint(4, 12)) for _ in range(chance.randint(1, 3))]
        data = damaged_pdf() if kind == "damaged" else scanned_pdf() if kind == "scanned" else pdf_of(*pages)
        (folder / f"{i:04}-{kind}.pdf").write_bytes(data)
    return bad


class Runs:
    """`pawl run` of the pipeline in one data folder."""

    def __init__(self, folder, name, options):
        self.folder, self.options, self.data = folder, options, folder / name
        self.log = folder / f"{name}.log"
        self.model = options.model
        if not self.model:
            self.model = folder / "replay.replay.json"
            self.model.write_text(json.dumps({"replay": 1, "chat_template": HERMES,
                                              "replies": [{"text": "A summary.", "delay_ms": 3}]}))

    def start(self, run=None):
        words = [] if run else [PIPELINE, "-p", f"words={WORDS}", "-p", f"parallel={self.options.parallel}", "-p",
                                f"overview={json.dumps(self.options.documents <= 100)}"]
        resume = ["--resume", run] if run else []
        log = open(self.log, "ab")
        return subprocess.Popen([PAWL, "run", *words, *resume, "--docs", self.folder / "docs", "--data", self.data, "--verbose",
                                 "--model", f"m={self.model}", "--plugin-dir", TEST_PLUGINS, "--threads", "2"],
                                stdout=subprocess.PIPE, stderr=log, text=True)

    def ask(self, *words):
        return subprocess.run([PAWL, "run", *words, "--data", self.data], capture_output=True, text=True).stdout.splitlines()

    def run_id(self):
        lines = self.ask("--list")
        return lines[0].split()[0] if lines else None

    def events(self):
        return [json.loads(line) for line in self.ask("--events", self.run_id())]

    def take_log(self, since):
        """What the log says from a place on: the documents that generated, in order; and its new end."""
        data = self.log.read_bytes()
        text = data[since:].decode("utf-8", "replace")
        need(not REPORT.search(text), text[:4000])
        return re.findall(r'summarises .*?"path":"([^"]+)"', text), len(data)


def report_of(events):
    return next(e["data"] for e in events if e["type"] == "run.done")


def undisturbed(runs):
    began = time.monotonic()
    process = runs.start()
    process.communicate()
    need(process.returncode == 0, runs.log.read_text()[-2000:])
    generated, _ = runs.take_log(0)
    return runs.events(), generated, time.monotonic() - began


def read_until(process, wanted, chance):
    """Reads so many documents' lines of a run, then kills it at any moment soon after."""
    seen = 0
    for line in process.stdout:
        seen += line.startswith(('{"type":"document"', '{"type":"failed"'))
        if seen == wanted:
            time.sleep(chance.random() * 0.05)
            process.kill()
            break
    process.communicate()


def disturbed(runs, kills, n, chance):
    """Kills and resumes. The events, and how many generations were made."""
    run, generated, place, finished = None, 0, 0, set()
    for attempt in range(kills + 1):
        process, left = runs.start(run), n - len(finished)
        wanted = chance.randint(1, max(1, 2 * left // (kills - attempt + 1) - 2)) if attempt < kills else n + 1
        read_until(process, wanted, chance)
        begun, place = runs.take_log(place)
        generated += len(begun)
        need(not finished & set(begun), f"generated again: {sorted(finished & set(begun))[:5]}")
        need(process.returncode == (-9 if attempt < kills else 0), runs.log.read_text()[-2000:])
        run = runs.run_id()
        events = runs.events()
        finished = {e["data"]["path"] for e in events if e["type"] in ("document", "failed")}
        print(f"  process {attempt + 1}: {len(begun)} generations, {len(finished)} documents told", flush=True)
    return events, generated


def check(plain, cut, options, bad):
    for events in (plain, cut):
        told = [e["data"]["path"] for e in events if e["type"] in ("document", "failed")]
        equal(len(told), options.documents, "documents that were told")
        equal(len(set(told)), options.documents, "each of them once")
        report = report_of(events)
        equal((report["documents"], report["summarised"], len(report["failed"])),
              (options.documents, options.documents - 2 * bad, 2 * bad), "the report's counts")
        equal(sorted({row["code"] for row in report["failed"]}), ["damaged", "no_text"], "why some failed")
    equal(report_of(cut), report_of(plain), "the report of the run that was killed")
    summaries = [{e["data"]["path"]: e["data"]["summary"] for e in events if e["type"] == "document"} for events in (plain, cut)]
    equal(summaries[1], summaries[0], "the summaries")


def record(figure, options):
    words = " ".join(a for a in sys.argv[1:] if a != "--record").replace(str(pathlib.Path.home()), "~")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    line = f"| {time.strftime('%Y-%m-%d')} | {figure} | `tests/bench/summaries.py {words}` | {cpu}, {os.cpu_count()} cores | {commit} |"
    print(line)
    if options.record:
        with open(ROOT / "tests" / "RECORDS.md", "a", encoding="utf-8") as records:
            records.write(line + "\n")


def campaign(options, folder):
    bad = make_documents(folder / "docs", options.documents, options.seed)
    plain, needed, seconds = undisturbed(Runs(folder, "plain", options))
    print(f"undisturbed: {len(needed)} generations in {seconds:.1f} s")
    equal(len(needed), len(set(needed)), "one generation a document")
    cut, generated = disturbed(Runs(folder, "cut", options), options.kills, options.documents, random.Random(options.seed + 1))
    check(plain, cut, options, bad)
    most = len(needed) + options.kills * options.parallel
    need(len(needed) <= generated <= most, f"{generated} generations, where {len(needed)} to {most} are possible")
    model = options.model.stem if options.model else "replay"
    record(f"{options.documents} documents ({2 * bad} bad) with {model}: {options.kills} times kill -9, resumed by one command each; "
           f"every document told once, summaries and report equal to the undisturbed run's; {generated} generations where that "
           f"needed {len(needed)}; undisturbed {seconds:.0f} s", options)


# ------------------------------------------------------------- against a Python client

def by_client(server, folder, options):
    """Seconds for all documents: a thread reads a document and asks for its summary."""
    import openai
    client = openai.OpenAI(base_url=f"{server.scheme}://{server.address}/v1", api_key="any", max_retries=0)

    def summarise(path):
        got = subprocess.run(["pdftotext", "-enc", "UTF-8", path, "-"], capture_output=True, text=True)
        if not got.stdout.strip():
            return 0
        reply = client.chat.completions.create(
            model="m", temperature=0, max_tokens=2 * WORDS, messages=[
                {"role": "system", "content": "You summarise documents. State only what the text says."},
                {"role": "user", "content": f"<doc>\n{got.stdout}\n</doc>\nSummarise in at most {WORDS} words."}])
        return reply.usage.completion_tokens

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as threads:
        tokens = sum(threads.map(summarise, sorted((folder / "docs").iterdir())))
    return time.monotonic() - began, tokens


def throughput(options, folder):
    make_documents(folder / "docs", options.documents, options.seed)
    ours, theirs, tokens = [], [], 0
    with_overview, options.documents = options.documents, 10**6  # no overview: the client makes none
    for round_number in range(options.rounds):
        _, generated, seconds = undisturbed(Runs(folder, f"run{round_number}", options))
        ours.append(seconds)
        with Server({"m": options.model}) as server:
            seconds, tokens = by_client(server, folder, options)
        theirs.append(seconds)
        print(f"  round {round_number + 1}: pawl run {ours[-1]:.1f} s, client {theirs[-1]:.1f} s, {len(generated)} turns", flush=True)
    options.documents = with_overview
    ratio = sum(theirs) / sum(ours)
    record(f"{options.documents} documents summarised, {options.parallel} at once, {options.rounds} rounds in turn: pawl run "
           f"{sum(ours) / len(ours):.1f} s with its start, a Python openai client with threads against pawl serve "
           f"{sum(theirs) / len(theirs):.1f} s ({tokens} tokens): ratio {ratio:.2f}", options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--throughput", action="store_true")
    parser.add_argument("--record", action="store_true", help="append to tests/RECORDS.md")
    options = parser.parse_args()
    if SANITIZER:
        options.kills = min(options.kills, 2)
    with tempfile.TemporaryDirectory(prefix="pawl-summaries-") as folder:
        folder = pathlib.Path(folder)
        (folder / "docs").mkdir()
        (throughput if options.throughput else campaign)(options, folder)


if __name__ == "__main__":
    main()
