"""What a rerun of a finished run costs, against the first run: `assay demo` twice on one run directory.

python benchmarks/bench_rerun.py [--repo PATH]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, best, cores, repositories


def main() -> None:
    """Print the ratio for each repository."""
    for repo in repositories("cost of a rerun"):
        with tempfile.TemporaryDirectory() as folder:
            demo = [
                sys.executable,
                "-m",
                "assay",
                "demo",
                "--repo",
                str(repo),
                "--run-dir",
                str(Path(folder, "run")),
            ]

            def run(command: list[str] = demo) -> None:
                subprocess.run(command, check=True, cwd=ROOT, stderr=subprocess.DEVNULL)

            began = time.perf_counter()
            run()
            first = time.perf_counter() - began
            again = best({"rerun": run}, rounds=3)["rerun"]
        ratio = f"{again / first:.2%} of the first"
        print(f"{repo.name}: {cores()}; first {first:.1f} s, rerun {again:.2f} s: {ratio}")


if __name__ == "__main__":
    main()
