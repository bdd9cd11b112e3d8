"""Honest programs as people write them: what works outside works inside."""

from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from dynamic import need

from sandbox import Call, Job, Limits, Result, Sandbox, SandboxError
from sandbox.languages import prepared
from sandbox.names import script_file

PACKAGES = Path(numpy.__file__).parents[1]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as made:
        yield made


def script(box: Sandbox, lang: str, source: str, **options: object) -> Result:
    if lang != "python":
        need(lang)
    return box.run(Job("script", {script_file(lang): source}, lang=lang, **options))  # type: ignore[arg-type]


def test_a_program_in_cpp_may_have_as_many_threads_as_its_limit(box: Sandbox) -> None:
    source = """
        #include <cstdio>
        #include <thread>
        int main() {
            std::thread threads[8];
            for (auto &one : threads) one = std::thread([] {});
            for (auto &one : threads) one.join();
            puts("joined");
        }
        """
    assert script(box, "cpp", source).stdout == "joined\n"


def test_numpy_can_be_loaded_ahead_and_draws_anew_in_each_job() -> None:
    source = "import numpy\nprint(numpy.ones((64, 64)) @ numpy.ones((64, 64))[0], numpy.random.rand())"
    with Sandbox(packages=[PACKAGES], preload=["numpy"]) as box:
        results = [box.run(Job("script", {"main.py": source})) for _ in range(2)]
    assert [result.status for result in results] == ["ok", "ok"]
    assert results[0].stdout != results[1].stdout


def test_a_module_that_starts_threads_cannot_be_loaded_ahead(tmp_path: Path) -> None:
    # Programs are another user than root.
    tmp_path.chmod(0o755)
    (tmp_path / "busy.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    )
    with pytest.raises(SandboxError, match="busy starts threads"):
        Sandbox(packages=[tmp_path], preload=["busy"])


def test_php_reads_lines_as_on_a_command_line(box: Sandbox) -> None:
    assert script(box, "php", "<?php echo 2 * (int) readline();", stdin="21\n").stdout == "42"


def test_a_suite_of_many_calls_ends_within_its_limits(box: Sandbox) -> None:
    files = {"solution.py": "def f(x): return x", "test.py": "for i in range(8000): assert f(i) == i"}
    result = box.run(Job("split", files, entry="f", limits=Limits(wall_s=5)))
    assert (result.status, result.candidate_calls) == ("ok", 8000)


def test_what_node_writes_before_it_leaves_is_whole(box: Sandbox) -> None:
    source = 'console.log("x".repeat(200000)); process.exit(0)'
    assert {len(script(box, "javascript", source).stdout) for _ in range(5)} == {200001}


@pytest.mark.parametrize("lang", ["python", "javascript", "ruby", "go"])
def test_standard_output_can_be_opened_by_name(box: Sandbox, lang: str) -> None:
    source = {
        "python": "open('/dev/stdout', 'w').write('named')",
        "javascript": "require('fs').writeFileSync('/dev/stdout', 'named')",
        "ruby": "File.write('/dev/stdout', 'named')",
        "go": 'package main\nimport "os"\nfunc main() { os.WriteFile("/dev/stdout", []byte("named"), 0644) }',
    }[lang]
    assert script(box, lang, source).stdout == "named"


def test_a_method_of_class_solution_is_found_and_has_an_object_a_call(box: Sandbox) -> None:
    source = """class Solution:
    def __init__(self): self.seen = []
    def add(self, x):
        self.seen.append(x)
        return len(self.seen)
"""
    job = Job("calls", {"solution.py": source}, entry="add", calls=[Call((1,)), Call((2,))])
    assert box.run(job).outputs == [1, 1]
    files = {"solution.py": source, "test.py": "assert add(5) == 1"}
    assert box.run(Job("split", files, entry="add")).status == "ok"


def test_recursion_goes_as_deep_as_outside(box: Sandbox) -> None:
    source = "def f(n): return 0 if n == 0 else 1 + f(n - 1)\n"
    assert script(box, "python", f"{source}print(f(995))").stdout == "995\n"
    job = Job("calls", {"solution.py": source}, entry="f", calls=[Call((995,))])
    assert box.run(job).outputs == [995]


def test_leaving_a_map_stops_what_is_under_way(box: Sandbox) -> None:
    """Otherwise this test would run into its time limit."""
    quick = Job("script", {"main.py": "print(1)"})
    slow = Job("script", {"main.py": "import time; time.sleep(300)"}, limits=Limits(wall_s=600))
    for result in box.map([quick, slow, slow]):
        assert result.status == "ok"
        break
    assert [result.status for result in box.map([quick] * 5)] == ["ok"] * 5


def test_jobs_that_fail_to_come_cost_no_result_of_those_that_came(box: Sandbox) -> None:
    def jobs() -> Iterator[Job]:
        yield Job("script", {"main.py": "print(1)"})
        yield Job("script", {"main.py": "print(2)"})
        raise RuntimeError("no more")

    results = box.map(jobs())
    assert [next(results).stdout, next(results).stdout] == ["1\n", "2\n"]
    with pytest.raises(RuntimeError, match="no more"):
        next(results)


def test_a_user_without_a_home_has_no_cache_and_is_told_where_one_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need("java")

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("ASSAY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(SandboxError, match="set ASSAY_CACHE"):
        prepared.folder("java", ["another"], lambda *_: None)
    with Sandbox() as box:
        assert script(box, "python", "print(1)").stdout == "1\n"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"stdin": None}, "stdin"),
        ({"stdin": b""}, "stdin"),
        ({"limits": {"wall_s": 1}}, "limits"),
        ({"calls": [(1,)]}, "calls"),
        ({"argv": "abc"}, "argv"),
        ({"argv": [1]}, "argv"),
        ({"argv": ["a\0b"]}, "argv"),
        ({"in_place": True}, "in_place"),
    ],
    ids=str,
)
def test_a_field_of_another_type_is_refused_by_name(options: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=f"Job.{named}"):
        Job("script", {"main.py": ""}, **options)  # type: ignore[arg-type]


def test_arguments_of_a_sandbox_that_look_right_are_refused_too() -> None:
    for options in ({"workers": "2"}, {"workers": 1.5}, {"preload": "numpy"}, {"packages": "/tmp"}):
        with pytest.raises(SandboxError):
            Sandbox(**options)  # type: ignore[arg-type]
