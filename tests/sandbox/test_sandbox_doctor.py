"""The doctor tells what holds: it sees every fence that lacks, and refuses for those that are required."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import Job, Layer, Result, Sandbox, cgroups, doctor

ROOT = Path(__file__).parents[2]
OPTIONAL = {"Landlock", "control group", "private /proc", "first to be killed"}
SYSTEM_PYTHON = next(
    (path for path in (f"/usr/bin/python3.{minor}" for minor in (11, 12, 13, 14)) if Path(path).exists()),
    None,
)


def unfenced(job: Job) -> Result:
    """Run without isolation. Nothing that the probe tries does harm there."""
    with Sandbox("plain") as box:
        return box.run(dataclasses.replace(job, limits=dataclasses.replace(job.limits, processes=200)))


def fenced(job: Job) -> Result:
    with Sandbox() as box:
        return box.run(job)


@pytest.fixture(scope="module")
def without() -> dict[str, Layer]:
    return {layer.name: layer for layer in doctor.layers(unfenced)}


def test_each_fence_is_tried_and_told_in_one_line() -> None:
    found = Sandbox.doctor()
    assert [layer.name for layer in found] == [fence.name for fence in doctor.FENCES]
    assert all(layer.detail and "\n" not in layer.detail for layer in found)


def test_what_is_required_holds_here_and_the_rest_is_a_second_fence() -> None:
    assert doctor.lacking(Sandbox.doctor()) == []
    assert {fence.name for fence in doctor.FENCES if not fence.required} == OPTIONAL


@pytest.mark.parametrize(
    "name",
    [
        *(f"{name} namespace" for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")),
        *("seccomp filter", "host files hidden", "network unreachable", "bounded /tmp", "PID 1 out of reach"),
        *("resource limits", "private /proc", "Landlock"),
    ],
)
def test_a_fence_that_is_not_there_is_not_seen(name: str, without: dict[str, Layer]) -> None:
    assert not without[name].holds, without[name].detail


@pytest.mark.skipif(os.getuid() != 0, reason="only what root may do shows whether its rights are gone")
@pytest.mark.parametrize("name", ["unprivileged uid", "no capabilities", "read-only root"])
def test_rights_of_root_that_are_kept_are_seen(name: str, without: dict[str, Layer]) -> None:
    assert not without[name].holds, without[name].detail


def test_a_required_fence_that_lacks_is_a_refusal() -> None:
    said = doctor.problem(unfenced)
    assert said.startswith("no isolated run is possible here: user namespace: ")
    assert "\n" not in said
    assert doctor.problem(fenced) == ""


def test_an_optional_fence_that_lacks_is_none() -> None:
    found = [Layer(fence.name, fence.required, "") for fence in doctor.FENCES]
    assert doctor.lacking(found) == []
    assert [layer.name for layer in doctor.lacking([Layer("no_new_privs", False, "not set")])] == [
        "no_new_privs"
    ]


def test_trying_leaves_no_file_behind() -> None:
    places = [Path(place) for place in ("/", "/dev", "/tmp", Path(os.__file__).parent)]
    before = {place: set(os.listdir(place)) for place in places}
    doctor.problem(unfenced)
    left = {name for place in places for name in set(os.listdir(place)) - before[place]}
    assert {name for name in left if "probe" in name or name.startswith(("fill", "long", "device"))} == set()


def test_a_process_that_lives_on_is_found() -> None:
    code = "import ctypes, sys, time; ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)\n"
    code += "print(flush=True); time.sleep(600)"
    left: list[subprocess.Popen[str]] = []

    def run(job: Job) -> Result:
        left.append(
            subprocess.Popen([sys.executable, "-c", code, job.argv[-1]], stdout=subprocess.PIPE, text=True)
        )
        assert left[-1].stdout is not None
        left[-1].stdout.readline()
        return fenced(job)

    try:
        said = doctor.problem(run)
    finally:
        for process in left:
            process.kill()
            process.communicate()
    assert f"ends with its job: process {left[0].pid} lives on" in said


def test_a_machine_that_runs_nothing_has_one_layer_with_the_reason() -> None:
    def run(job: Job) -> Result:
        return Result("infra_error", detail="unshare(mount, net): Operation not permitted")

    (layer,) = doctor.layers(run)
    assert (layer.name, layer.holds) == ("isolated run", False)
    assert "Operation not permitted" in layer.detail
    assert doctor.lacking([layer]) == [layer]
    assert "CAP_SYS_ADMIN" in doctor.advice(layer) or "sysctl" in doctor.advice(layer)


@pytest.mark.parametrize("fence", doctor.FENCES, ids=lambda fence: fence.name)
def test_each_fence_has_something_to_do_where_it_lacks(fence: doctor.Fence) -> None:
    said = doctor.advice(Layer(fence.name, False, "something"))
    assert said
    assert "\n" not in said
    assert said.startswith("optional") == (not fence.required)


@pytest.mark.skipif(cgroups.usable() is None, reason=f"no control group can be made: {cgroups.why_not()}")
def test_a_worker_in_a_group_of_its_own_is_seen() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    group = cgroups.Group()
    try:
        group.add(process.pid)
        layer = doctor.control_group()
    finally:
        process.communicate(b"\n")
        group.close()
    assert (layer.holds, layer.detail) == (True, cgroups.usable())


def test_a_supervisor_without_a_network_can_isolate_as_well() -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs util-linux")
    inside = [unshare, "-n"] if os.getuid() == 0 else [unshare, "-Unc"]
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from sandbox import Sandbox\nSandbox()\nprint('made')"
    done = subprocess.run([*inside, sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    if done.returncode and "unshare:" in done.stderr:
        pytest.skip(f"no network namespace can be made: {done.stderr.strip()}")
    assert (done.stdout, done.stderr) == ("made\n", "")


def test_where_no_proc_can_be_mounted_the_rest_is_still_tried() -> None:
    tools = [shutil.which(name) for name in ("setpriv", "unshare", "mount")]
    if os.getuid() != 0 or None in tools or SYSTEM_PYTHON is None:
        pytest.skip("needs root, util-linux, mount and a system Python 3.11 or later")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run(
        [*user, SYSTEM_PYTHON, "-c", f"open({doctor.__file__!r})"], capture_output=True
    ).returncode:
        pytest.skip("an ordinary user cannot read this checkout")
    # A /proc with a cover on it: the kernel lets an ordinary user mount no whole one then.
    script = """
        mount -t tmpfs none /proc/acpi || exit 9
        exec setpriv --ambient-caps=-all --inh-caps=-all "$@"
    """
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from sandbox import Sandbox, doctor\nfound = Sandbox.doctor()\nprint(doctor.lacking(found))\n"
    code += "print(next(layer.detail for layer in found if layer.name == 'private /proc'))\nSandbox()\n"
    done = subprocess.run(
        [*user, "unshare", "-Umc", "--keep-caps", "sh", "-c", script, "sh", SYSTEM_PYTHON, "-B", "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        timeout=120,
    )
    if done.returncode == 9:
        pytest.skip(f"nothing can be mounted on /proc here: {done.stderr.strip()}")
    assert (done.stdout, done.stderr) == ("[]\nshows nothing, for none can be mounted\n", "")


def test_every_language_has_a_toolchain_or_the_packages_that_bring_it() -> None:
    found = doctor.toolchains()
    assert [one.lang for one in found] == list(doctor.LANGUAGES)
    for one in found:
        assert bool(one.version) != bool(one.problem), one
        assert "\n" not in one.version + one.problem


def test_a_missing_toolchain_names_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ruby = next(one for one in doctor.toolchains() if one.lang == "ruby")
    assert ruby.version == ""
    assert all(package in ruby.problem for package in ("apt-get install", *ruby.packages))


def test_the_doctor_is_harmless_to_others_at_the_same_time() -> None:
    job = Job("script", {"main.py": "print(1)"})
    with Sandbox(workers=2) as box:
        results = box.map([job] * 20)
        assert doctor.lacking(Sandbox.doctor()) == []
        assert [result.status for result in results] == ["ok"] * 20
