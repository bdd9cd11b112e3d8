"""Control groups: real ones where they can be made, and the ways they can be laid out, on trees of files."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import cgroups

real = pytest.mark.skipif(cgroups.usable() is None, reason=f"no control group here: {cgroups.why_not()}")

# Takes as many MiB as a line says, then waits for its input to end.
EATER = """
import sys
data = bytearray(int(sys.stdin.readline()) << 20)
data[::4096] = b"x" * len(data[::4096])
print("full", flush=True)
sys.stdin.read()
"""


class Eater:
    """A process in a group, which must be left as a context."""

    def __init__(self, group: cgroups.Group, code: str = EATER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        group.add(self.process.pid)

    def __enter__(self) -> Eater:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def eat(self, mib: int) -> str:
        """Return "full", or "" where it was killed for it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{mib}\n")
        return self.process.stdout.readline().strip()

    def end(self) -> int:
        """Return its exit status."""
        if self.process.returncode is None:
            self.process.communicate()
        return self.process.returncode


@pytest.fixture
def group() -> Iterator[cgroups.Group]:
    made = cgroups.Group()
    yield made
    assert made.close()


@real
def test_a_process_beyond_the_bound_is_killed_and_counted(group: cgroups.Group) -> None:
    group.limit(64)
    with Eater(group) as eater:
        assert eater.eat(200) == ""
        assert eater.end() == -9
    assert group.oom_kills() == 1


@real
def test_a_process_within_the_bound_lives(group: cgroups.Group) -> None:
    group.limit(64)
    with Eater(group) as eater:
        assert eater.eat(20) == "full"
        assert eater.end() == 0
    assert group.oom_kills() == 0


@real
def test_processes_are_bounded_together(group: cgroups.Group) -> None:
    group.limit(96)
    with Eater(group) as one, Eater(group) as two, Eater(group) as three:
        for eater in (one, two, three):
            eater.eat(60)
        ends = [eater.end() for eater in (one, two, three)]
    assert -9 in ends
    assert group.oom_kills() == ends.count(-9)


@real
def test_the_bound_can_be_moved_up_and_down(group: cgroups.Group) -> None:
    for mebibytes in (64, 32, 128, 16, 100):
        group.limit(mebibytes)
    with Eater(group) as eater:
        assert eater.eat(50) == "full"


@real
def test_a_bound_of_nothing_is_refused(group: cgroups.Group) -> None:
    with pytest.raises(ValueError, match="-1 MiB"):
        group.limit(-1)


@real
def test_what_a_member_starts_is_a_member(group: cgroups.Group) -> None:
    code = "import subprocess, sys\nsys.stdin.readline()\nsubprocess.run(['/bin/cat', '/proc/self/cgroup'])"
    with Eater(group, code) as eater:
        said, _ = eater.process.communicate("\n")
    assert group.name in said


@real
def test_a_group_that_is_lived_in_stays_and_is_removed_later() -> None:
    group = cgroups.Group()
    with Eater(group) as eater:
        eater.eat(1)
        assert not group.close()
        # The owner lives: nobody else may take it.
        assert group.name in _left()
        cgroups.sweep()
        assert group.name in _left()
    assert group.close()
    assert group.name not in _left()


@real
def test_closing_twice_does_no_harm() -> None:
    group = cgroups.Group()
    assert group.close()
    assert group.close()


@real
def test_closing_waits_for_processes_that_are_ending() -> None:
    group = cgroups.Group()
    with Eater(group) as eater:
        eater.eat(10)
        timer = threading.Timer(0.1, eater.end)
        timer.start()
        assert group.close()
        timer.join()


@real
def test_a_process_that_is_gone_cannot_be_added(group: cgroups.Group) -> None:
    done = subprocess.Popen(["/bin/true"])
    done.wait()
    with pytest.raises(ProcessLookupError, match=r"cgroup\.procs"):
        group.add(done.pid)


@real
def test_groups_have_names_of_their_own_that_tell_the_process() -> None:
    groups = [cgroups.Group() for _ in range(3)]
    try:
        names = [group.name.split("-") for group in groups]
        start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        assert {tuple(parts[:3]) for parts in names} == {("assay", str(os.getpid()), start)}
        assert len({parts[3] for parts in names}) == 3
    finally:
        for group in groups:
            group.close()


def _left() -> list[str]:
    place = cgroups.usable()
    assert place is not None
    return os.listdir(place.rpartition(" in ")[2])


@real
def test_what_a_killed_process_left_is_swept_and_nothing_else() -> None:
    code = "import os, sandbox.cgroups as c; print(c.Group().name, flush=True); os.kill(os.getpid(), 9)"
    root = str(Path(cgroups.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    orphan = done.stdout.strip()
    mine = cgroups.Group()
    try:
        assert {orphan, mine.name} <= set(_left())
        assert cgroups.sweep() >= 1
        assert orphan not in _left()
        assert mine.name in _left()
    finally:
        mine.close()


# -- layouts, as trees of files


class Tree:
    """A machine's control groups as files: /proc/self and mount points below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounts = ["1 0 8:1 / / rw - ext4 /dev/sda rw"]
        (root / "proc/self").mkdir(parents=True)
        self.own("")

    def own(self, *lines: str) -> None:
        (self.root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in lines))

    def mount(self, point: str, kind: str, options: str = "rw", mount_root: str = "/") -> None:
        text = f"35 31 0:32 {mount_root} {point} rw,relatime shared:9 - {kind} {kind} {options}"
        self.mounts.append(text)
        (self.root / "proc/self/mountinfo").write_text("\n".join(self.mounts))
        (self.root / point.lstrip("/").replace("\\040", " ")).mkdir(parents=True, exist_ok=True)

    def unified(self, path: str, controllers: str = "cpu memory", enabled: str = "", **files: str) -> Path:
        folder = self.root / "sys/fs/cgroup" / path
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"cgroup.controllers": controllers, "cgroup.subtree_control": enabled, "cgroup.procs": ""}
        for name, text in {**texts, **files}.items():
            (folder / name.replace("_max", ".max").replace("_high", ".high")).write_text(text)
        return folder

    def usable(self) -> str | None:
        return cgroups.usable(str(self.root))

    def why_not(self) -> str:
        return cgroups.why_not(str(self.root))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def v2(tree: Tree, own: str = "/") -> Tree:
    tree.mount("/sys/fs/cgroup", "cgroup2", "rw,nsdelegate")
    tree.own(f"0::{own}")
    return tree


def test_the_root_of_version_2_can_hold_groups_and_gets_the_controller(tree: Tree) -> None:
    root = v2(tree).unified("")
    assert tree.usable() == f"cgroup v2 bounds memory, in {root}"
    assert (root / "cgroup.subtree_control").read_text() == "+memory"


def test_a_controller_that_is_on_is_left_alone(tree: Tree) -> None:
    root = v2(tree).unified("", enabled="cpu memory")
    assert tree.usable()
    assert (root / "cgroup.subtree_control").read_text() == "cpu memory"


def test_version_2_without_the_memory_controller_is_said(tree: Tree) -> None:
    root = v2(tree).unified("", controllers="hugetlb pids")
    assert tree.usable() is None
    assert f"{root} has no memory controller" in tree.why_not()


def inhabited(tree: Tree, own: str = "/app/own", **files: str) -> tuple[Path, Path]:
    """A group that cannot turn the controller on below it, as the kernel refuses for one with processes."""
    v2(tree, own).unified("")
    above = tree.unified(own.strip("/").rpartition("/")[0], enabled="memory")
    here = tree.unified(own.strip("/"), **files)
    (here / "cgroup.subtree_control").unlink()
    return above, here


def test_a_group_is_made_beside_ours_where_ours_cannot_hold_it(tree: Tree) -> None:
    above, _ = inhabited(tree, memory_max="max\n", memory_high="max", cpu_max="max 100000")
    assert tree.usable() == f"cgroup v2 bounds memory, in {above}"


@pytest.mark.parametrize(
    ("name", "text"), [("memory_max", "4294967296"), ("memory_high", "0"), ("cpu_max", "50000 100000")]
)
def test_nobody_gets_out_of_a_bound_that_is_set_on_us(tree: Tree, name: str, text: str) -> None:
    inhabited(tree, **{name: text})
    assert tree.usable() is None
    assert f"would get out of its {name.replace('_', '.')}" in tree.why_not()


def test_a_group_that_hides_what_is_above_it_has_no_neighbours(tree: Tree) -> None:
    here = v2(tree).unified("")
    (here / "cgroup.subtree_control").unlink()
    assert tree.usable() is None
    assert "cgroup.subtree_control cannot be written" in tree.why_not()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(tree: Tree) -> None:
    folder = v2(tree).unified("", enabled="memory")
    folder.chmod(0o555)
    assert tree.usable() is None
    assert f"{folder} cannot be written" in tree.why_not()


def test_a_machine_without_control_groups_is_said(tree: Tree) -> None:
    (tree.root / "proc/self/mountinfo").write_text("1 0 8:1 / / rw - ext4 /dev/sda rw\n")
    tree.own("0::/")
    assert tree.usable() is None
    assert "v2: the group of this process is not mounted" in tree.why_not()
    assert "v1: the group of this process is not mounted" in tree.why_not()
    with pytest.raises(OSError, match="no control group can be made: cgroup v2"):
        cgroups.Group(str(tree.root))
    assert cgroups.sweep(str(tree.root)) == 0


def test_a_machine_without_proc_is_said(tmp_path: Path) -> None:
    assert cgroups.usable(str(tmp_path)) is None
    assert str(tmp_path / "proc/self/cgroup") in cgroups.why_not(str(tmp_path))


def test_version_1_is_used_below_the_own_group(tree: Tree) -> None:
    tree.own("9:name=systemd:/", "4:memory:/jobs/a:b", "3:cpu,cpuacct:/x", "0::/")
    tree.mount("/cg/memory", "cgroup", "rw,memory")
    folder = tree.root / "cg/memory/jobs/a:b"
    folder.mkdir(parents=True)
    assert tree.usable() == f"cgroup v1 bounds memory, in {folder}"
    group = cgroups.Group(str(tree.root))
    assert [path.name for path in folder.iterdir()] == [group.name]
    assert group.close()
    assert list(folder.iterdir()) == []


def test_the_part_of_a_hierarchy_that_a_container_sees_is_found(tree: Tree) -> None:
    tree.own("4:memory:/docker/abc/inner")
    tree.mount("/other", "cgroup", "rw,memory", mount_root="/docker/xyz")
    tree.mount("/cg\\040mem", "cgroup", "rw,memory", mount_root="/docker/abc")
    (tree.root / "cg mem/inner").mkdir()
    assert tree.usable() == f"cgroup v1 bounds memory, in {tree.root}/cg mem/inner"


def test_a_group_outside_the_namespace_is_not_looked_for(tree: Tree) -> None:
    tree.own("4:memory:/../elsewhere", "0::/../elsewhere")
    tree.mount("/sys/fs/cgroup", "cgroup2")
    tree.mount("/cg/memory", "cgroup", "rw,memory")
    assert tree.usable() is None


def made(tree: Tree, **files: str) -> tuple[cgroups.Group, Path]:
    """A group of version 2 with the files that a kernel would put there."""
    v2(tree).unified("", enabled="memory")
    group = cgroups.Group(str(tree.root))
    folder = tree.root / "sys/fs/cgroup" / group.name
    texts = {"memory.max": "max", "memory.swap.max": "", "cgroup.procs": ""}
    for name, text in {**texts, **{name.replace("__", "."): text for name, text in files.items()}}.items():
        (folder / name).write_text(text)
    return group, folder


def test_version_2_bounds_memory_and_leaves_no_swap(tree: Tree) -> None:
    group, folder = made(tree)
    group.limit(64)
    assert (folder / "memory.max").read_text() == str(64 << 20)
    assert (folder / "memory.swap.max").read_text() == "0"


def test_version_2_without_swap_accounting_bounds_memory(tree: Tree) -> None:
    group, folder = made(tree)
    (folder / "memory.swap.max").unlink()
    group.limit(64)
    assert (folder / "memory.max").read_text() == str(64 << 20)
    assert not (folder / "memory.swap.max").exists()


def test_version_2_counts_kills(tree: Tree) -> None:
    group, folder = made(tree, memory__events="low 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert group.oom_kills() == 2
    (folder / "memory.events").write_text("oom 4\noom_kill 5\n")
    assert group.oom_kills() == 5


def test_a_control_that_is_missing_is_named_and_not_made(tree: Tree) -> None:
    group, folder = made(tree)
    (folder / "memory.max").unlink()
    with pytest.raises(FileNotFoundError, match=r"memory\.max"):
        group.limit(64)
    assert not (folder / "memory.max").exists()
    with pytest.raises(OSError, match=r"memory\.events"):
        group.oom_kills()


def test_members_are_told_by_pid(tree: Tree) -> None:
    group, folder = made(tree)
    group.add(1234)
    assert (folder / "cgroup.procs").read_text() == "1234"


def test_a_name_that_is_taken_is_passed_over(tree: Tree) -> None:
    root = v2(tree).unified("", enabled="memory")
    pid, start, number = cgroups.Group(str(tree.root)).name.split("-")[1:]
    for above in range(1, 4):
        (root / f"assay-{pid}-{start}-{int(number) + above}").mkdir()
    assert int(cgroups.Group(str(tree.root)).name.split("-")[3]) == int(number) + 4


def test_only_empty_groups_of_dead_processes_are_swept(tree: Tree) -> None:
    root = v2(tree).unified("", enabled="memory")
    mine = cgroups.Group(str(tree.root))
    pid, start = map(int, mine.name.split("-")[1:3])
    dead = subprocess.Popen(["/bin/true"])
    dead.wait()
    gone = [f"assay-{dead.pid}-{start}-0", f"assay-{pid}-{start - 1}-0", f"assay-{1 << 30}-1-1"]
    kept = [
        "assay",
        "assay-1-2",
        "assay-x-1-2",
        f"assay-{pid}-{start}-99",
        "system.slice",
        f"my-{dead.pid}-1-1",
    ]
    for name in itertools.chain(gone, kept):
        (root / name).mkdir()
    busy = root / f"assay-{dead.pid}-{start}-1"
    (busy / "cgroup.procs").mkdir(parents=True)
    assert cgroups.sweep(str(tree.root)) == len(gone)
    left = {path.name for path in root.iterdir() if path.is_dir()}
    assert left == {*kept, mine.name, busy.name}


def test_a_process_that_ended_but_was_not_waited_for_is_gone(tree: Tree) -> None:
    root = v2(tree).unified("", enabled="memory")
    dying = subprocess.Popen(["/bin/sleep", "60"])
    stat = Path(f"/proc/{dying.pid}/stat")
    start = stat.read_text().rpartition(")")[2].split()[19]
    name = f"assay-{dying.pid}-{start}-0"
    (root / name).mkdir()
    assert cgroups.sweep(str(tree.root)) == 0
    dying.kill()
    os.waitid(os.P_PID, dying.pid, os.WEXITED | os.WNOWAIT)
    assert cgroups.sweep(str(tree.root)) == 1
    dying.wait()


def test_a_launcher_needs_few_modules_for_it() -> None:
    code = textwrap.dedent(
        """
        import os, sys
        before = set(sys.modules)
        exec(compile(open(sys.argv[1]).read(), "cgroups", "exec"), {})
        print(*set(sys.modules) - before)
        """
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(cgroups.__file__)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"__future__", "errno", "itertools", "time"}
