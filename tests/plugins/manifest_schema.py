#!/usr/bin/env python3
"""Judges the manifest examples and our own manifests by the JSON Schema.

Usage: manifest_schema.py SOURCE_DIR. Exit status 77: python3-jsonschema is missing.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import sys

try:
    import jsonschema
except ImportError:
    print("SKIP: python3-jsonschema is not installed")
    sys.exit(77)


def main(source):
    with open(f"{source}/schemas/plugin-manifest.schema.json", encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    examples = sorted(glob.glob(f"{source}/tests/fuzz/corpus/manifest/*.json"))
    own = sorted(glob.glob(f"{source}/**/*.plugin.json", recursive=True))
    own = [path for path in own if "/build" not in path]
    failed = 0
    for path in examples + own:
        name = os.path.basename(path)
        if name.startswith("strict_"):
            continue
        with open(path, encoding="utf-8") as file:
            errors = [e.message for e in validator.iter_errors(json.load(file))]
        if bool(errors) != name.startswith("bad_"):
            failed += 1
            print(f"{name}: {errors or 'accepted'}")
    print(f"{len(examples)} examples, {len(own)} manifests, {failed} wrong")
    return 1 if failed or len(examples) < 50 or not own else 0


sys.exit(main(sys.argv[1]))
