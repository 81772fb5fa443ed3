"""The campaign of tests/bench/summaries.py, with a few documents and a scripted model.

SPDX-License-Identifier: Apache-2.0
"""
import shutil
import subprocess
import sys

from common import ROOT, SLOWNESS, SMOLLM2, SANITIZER, Skip, case, case_timeout, equal, main

case_timeout(300)


def campaign(*args):
    if not shutil.which("pdftotext"):
        raise Skip("pdftotext is not there (poppler-utils)")
    done = subprocess.run([sys.executable, ROOT / "tests" / "bench" / "summaries.py", *args], capture_output=True, text=True,
                          timeout=250 * SLOWNESS)
    equal(done.returncode, 0, f"status ({done.stdout[-1500:]} {done.stderr[-1500:]})")
    print("    " + done.stdout.strip().splitlines()[-1])


@case
def it_is_killed_and_resumed():
    campaign("--documents", "24", "--kills", "3", "--parallel", "4")


@case
def it_runs_on_a_real_model():
    if SANITIZER or not SMOLLM2.exists():
        raise Skip(f"{SMOLLM2} is missing, or a sanitizer makes it slow")
    campaign("--documents", "6", "--kills", "1", "--parallel", "3", "--model", str(SMOLLM2))


if __name__ == "__main__":
    main()
