"""`python -m tests.fuzz --runs N [--target T] [--seed S]`: N executions in all, shared by the targets.

An input that fails is kept in `.fuzz/`, and `--replay FILE --target T` runs it again.
"""

import argparse
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"
LONGEST_INPUT = 4096
SLOWEST_S = 10  # for one input
_DONE = re.compile(r"Done (\d+) runs in (\d+) second")
_COVERED = re.compile(r"cov: (\d+)")


def main() -> int:
    """Fuzz, and print a line for each target; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Coverage-guided fuzzing.")
    parser.add_argument("--runs", type=int, default=100_000, help="executions in all")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer's dice")
    parser.add_argument("--seconds", type=int, default=0, help="seconds for each target")
    parser.add_argument("--workers", type=int, default=2, help="targets at once")
    parser.add_argument("--replay", type=Path, help="run one input that failed")
    options = parser.parse_args()
    targets = options.target or sorted(TARGETS)
    if options.replay:
        TARGETS[targets[0]].run(options.replay.read_bytes())
        return 0
    began = time.perf_counter()
    KEPT.mkdir(exist_ok=True)
    share = -(-options.runs // len(targets))
    with ThreadPoolExecutor(options.workers) as pool:
        found = list(pool.map(lambda name: fuzz(name, share, options.seed, options.seconds), targets))
    failed = sum(runs is None for runs in found)
    total = sum(runs or 0 for runs in found)
    print(f"fuzz: {total:,} executions of {len(targets)} targets, {failed} failed; {time.perf_counter() - began:.0f} s")
    return 1 if failed else 0


def fuzz(name: str, runs: int, seed: int, seconds: int) -> int | None:
    """How many executions there were, or None when one failed."""
    target = TARGETS[name]
    with TemporaryDirectory() as place:
        corpus = Path(place, "corpus")
        corpus.mkdir()
        for n, text in enumerate(target.seeds):
            Path(corpus, f"seed-{n}").write_bytes(text)
        words = Path(place, "words")
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        arguments = [f"-runs={runs}", f"-seed={seed}", f"-max_len={LONGEST_INPUT}", f"-timeout={SLOWEST_S}"]
        arguments += [f"-dict={words}"] * bool(target.words)
        arguments += [f"-max_total_time={seconds}", f"-artifact_prefix={KEPT}/{name}-", str(corpus)]
        command = [sys.executable, "-m", "tests.fuzz.one", name, *arguments]
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = ended.stdout.decode("utf-8", "replace")
    done = _DONE.search(said)
    if ended.returncode or done is None:
        print(
            f"{name}: FAILED\n{said[-3000:]}\n  replay with: python -m tests.fuzz --target {name} --replay .fuzz/…",
            flush=True,
        )
        return None
    covered = _COVERED.findall(said)
    print(f"{name}: {int(done[1]):,} executions in {done[2]} s, {covered[-1] if covered else 0} edges", flush=True)
    return int(done[1])


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    sys.exit(main())
