"""A strict reader of Prometheus' text format 0.0.4: raises on whatever a scraper could trip over.

parse(bytes) gives {(name, labels): value}, labels as a sorted tuple of pairs.

SPDX-License-Identifier: Apache-2.0
"""
import math
import re

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")  # ':' is for recording rules
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
NUMBER = re.compile(r"(NaN|[+-]Inf|[+-]?\d+(\.\d+)?([eE][+-]?\d+)?)\Z")
TYPES = ("counter", "gauge", "histogram")
UNITS = ("_milliseconds", "_ms", "_kb", "_mb", "_kilobytes", "_percent")


class Bad(AssertionError):
    pass


def check(condition, line, why):
    if not condition:
        raise Bad(f"{why}: {line!r}")


def parse_labels(text, line):
    labels, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        check(match, line, f"label at {at}")
        labels.append((match[1], re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])))
        at = match.end()
        if at < len(text):
            check(text[at] == "," and at + 1 < len(text), line, "a comma between labels")
            at += 1
    names = [name for name, _ in labels]
    check(len(set(names)) == len(names), line, "a label twice")
    check(not any(name.startswith("__") for name in names), line, "a reserved label")
    return tuple(sorted(labels))


def parse_sample(line):
    match = re.match(r"([^\s{]+)(?:\{(.*)\})? (\S+)\Z", line)
    check(match, line, "NAME{LABELS} VALUE")
    check(NAME.match(match[1]), line, "name")
    check(NUMBER.match(match[3]), line, "value")
    check(match[2] != "", line, "empty braces")
    return match[1], parse_labels(match[2] or "", line), float(match[3])


def check_family(name, kind, samples):
    check(samples, name, "a family without samples")
    check(name.endswith("_total") == (kind == "counter"), name, f"ending of a {kind}")
    check(not name.endswith(UNITS + ("_bucket", "_count", "_sum")), name, "ending")
    check(not re.search(r"[A-Z]", name), name, "capitals")
    if kind == "histogram":
        check_histogram(name, samples)
        return
    for sample, _, value in samples:
        check(sample == name, sample, "sample of another name")
        check(not math.isnan(value), name, "not a number")
        check(kind != "counter" or value >= 0, name, "a negative counter")
    check(len({labels for _, labels, _ in samples}) == len(samples), name, "a series twice")
    check(len({tuple(k for k, _ in labels) for _, labels, _ in samples}) == 1, name, "series of different labels")


def check_histogram(name, samples):
    series = {}
    for sample, labels, value in samples:
        plain = tuple(pair for pair in labels if pair[0] != "le")
        one = series.setdefault(plain, {"buckets": []})
        if sample == name + "_bucket":
            check("count" not in one and "sum" not in one, sample, "a bucket after sum or count")
            one["buckets"].append((float(dict(labels)["le"]), value))
        else:
            check(sample in (name + "_sum", name + "_count"), sample, "sample of a histogram")
            check(plain == labels and sample[len(name) + 1:] not in one, sample, "sum or count twice")
            one[sample[len(name) + 1:]] = value
    for plain, one in series.items():
        bounds = [bound for bound, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        check(bounds == sorted(set(bounds)) and bounds and bounds[-1] == math.inf, name, f"bounds {bounds}")
        check(counts == sorted(counts) and all(c == int(c) for c in counts), name, f"counts {counts}")
        check(one["count"] == counts[-1], name, "count against the last bucket")
        check(one["sum"] >= 0 and (one["count"] or one["sum"] == 0), name, "sum")


def parse(body):
    text = body.decode("utf-8")
    check(text.endswith("\n") and "\r" not in text, text[-20:], "line ends")
    families, order, values = {}, [], {}
    for line in text[:-1].split("\n"):
        words = line.split(" ", 3)
        if line.startswith("#"):
            check(len(words) == 4 and words[1] in ("HELP", "TYPE") and NAME.match(words[2]), line, "comment")
            if words[1] == "HELP":
                check(words[2] not in families and words[3].strip() == words[3] != "", line, "HELP")
                check(not re.search(r"\\[^\\n]|\\\Z", words[3]), line, "escapes of HELP")
                order.append(words[2])
                families[words[2]] = {"samples": []}
            else:
                check(words[2] == order[-1] and "type" not in families[words[2]] and words[3] in TYPES, line, "TYPE")
                families[words[2]]["type"] = words[3]
            continue
        name, labels, value = parse_sample(line)
        family = families[order[-1]]
        check("type" in family and name.startswith(order[-1]), line, "a sample outside its family")
        family["samples"].append((name, labels, value))
        check((name, labels) not in values, line, "a sample twice")
        values[name, labels] = value
    for name, family in families.items():
        check_family(name, family.get("type"), family["samples"])
    return values


def self_test():
    """The reader is strict: each of these is refused."""
    head = "# HELP a_total x\n# TYPE a_total counter\n"
    gauge = "# HELP g x\n# TYPE g gauge\n"
    h = "# HELP h x\n# TYPE h histogram\n"
    good = [head + "a_total 1\n", gauge + 'g{a="\\\\\\"\\n",b=""} -1.5e-7\n',
            h + 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n']
    bad = [head + "a_total 1", head + "a_total -1\n", head + "a_total 1\na_total 2\n", head, "a_total 1\n" + head, gauge + "g x\n",
           gauge + "g NaN\n", gauge + 'g{a="\n"} 1\n', gauge + 'g{a="\\x"} 1\n', gauge + 'g{a="1",a="2"} 1\n', gauge + "g{} 1\n",
           gauge + 'g{a="1"} 1\ng{b="1"} 1\n', gauge + 'g{a="1",} 1\n', gauge.replace("g", "g:x") + "g:x 1\n", gauge + "f 1\n",
           gauge.replace("gauge", "counter") + "g 1\n", head.replace("counter", "gauge") + "a_total 1\n", gauge + gauge + "g 1\n",
           "# TYPE g gauge\ng 1\n", "# HELP g x\ng 1\n", gauge.replace("x", "\\x") + "g 1\n",
           h + 'h_bucket{le="1"} 1\nh_sum 3\nh_count 1\n', h + 'h_bucket{le="+Inf"} 2\nh_sum 3\nh_count 1\n',
           h + 'h_bucket{le="1"} 3\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n', h + 'h_bucket{le="+Inf"} 2\nh_count 2\n',
           h + 'h_bucket{le="2"} 1\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n']
    for text in good:
        parse(text.encode())
    for text in bad:
        try:
            parse(text.encode())
        except (Bad, KeyError, IndexError):
            continue
        raise AssertionError(f"accepted: {text!r}")
