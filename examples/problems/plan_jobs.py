"""assay/9: Jobs on the benches of a workshop (scheduling, recursion in a nested function)."""

# --- prompt ---


def plan_jobs(jobs: dict[str, tuple[int, list[str]]], benches: int) -> list[tuple[int, int, str]]:
    """Plan the jobs of a workshop on its benches.

    `jobs` maps each job to the hours that it takes, at least 1, and the jobs that must be
    finished before it starts. The benches are numbered from 1, and each holds one job at a
    time.

    A job's weight is its own hours plus the largest weight of the jobs that wait directly for
    it, or its own hours if no job does. Time starts at 0. Whenever a bench is free and a job
    may start, the free bench with the lowest number takes the job with the largest weight, the
    one whose name sorts first among equals.

    Return (start, bench, job) for every job, sorted. Raise ValueError if there is no bench, if
    the hours of a job are below 1, or if a job waits for an unknown job or for itself, directly
    or through others.

    >>> plan_jobs({"cut": (2, []), "glue": (1, ["cut"]), "paint": (4, [])}, 2)
    [(0, 1, 'paint'), (0, 2, 'cut'), (2, 2, 'glue')]
    """
    # --- solution ---
    if benches < 1:
        raise ValueError("there is no bench")
    weights = weigh_jobs(jobs)
    plan: list[tuple[int, int, str]] = []
    busy: dict[int, tuple[int, str]] = {}
    pending = dict(jobs)
    finished: set[str] = set()
    now = 0
    while pending:
        ready = sorted(ready_jobs(pending, finished), key=lambda job: (-weights[job], job))
        free = [bench for bench in range(1, benches + 1) if bench not in busy]
        for bench, job in zip(free, ready, strict=False):
            plan.append((now, bench, job))
            busy[bench] = (now + pending.pop(job)[0], job)
        now = min(end for end, _ in busy.values())
        finished |= {job for end, job in busy.values() if end == now}
        busy = {bench: (end, job) for bench, (end, job) in busy.items() if end > now}
    return sorted(plan)


def weigh_jobs(jobs: dict[str, tuple[int, list[str]]]) -> dict[str, int]:
    """Return the weight of every job."""
    waiting = invert(jobs)
    weights: dict[str, int] = {}

    unfinished: set[str] = set()

    def weigh(job: str) -> int:
        if job in unfinished:
            raise ValueError(f"{job} waits for itself")
        if job not in weights:
            unfinished.add(job)
            weights[job] = jobs[job][0] + max(map(weigh, waiting[job]), default=0)
            unfinished.remove(job)
        return weights[job]

    for job in jobs:
        weigh(job)
    return weights


def invert(jobs: dict[str, tuple[int, list[str]]]) -> dict[str, list[str]]:
    """Map every job to the jobs that wait directly for it."""
    waiting: dict[str, list[str]] = {job: [] for job in jobs}
    for job, (hours, before) in jobs.items():
        if hours < 1:
            raise ValueError(f"{job} must take at least an hour")
        for other in before:
            if other not in jobs:
                raise ValueError(f"{job} waits for an unknown job")
            waiting[other].append(job)
    return waiting


def ready_jobs(jobs: dict[str, tuple[int, list[str]]], finished: set[str]) -> set[str]:
    """Return those of some jobs whose predecessors are all finished."""
    return {job for job, (_, before) in jobs.items() if finished.issuperset(before)}


# --- test ---
def check(candidate):
    def rejects(*args):
        try:
            candidate(*args)
        except ValueError:
            return True
        return False

    assert candidate({}, 1) == []
    assert candidate({"cut": (2, []), "glue": (1, ["cut"]), "paint": (4, [])}, 2) == [
        (0, 1, "paint"),
        (0, 2, "cut"),
        (2, 2, "glue"),
    ]
    assert candidate({"saw": (3, [])}, 4) == [(0, 1, "saw")]
    assert candidate({"b": (1, []), "a": (1, []), "c": (2, [])}, 1) == [(0, 1, "c"), (2, 1, "a"), (3, 1, "b")]
    assert candidate({"b": (1, []), "a": (1, []), "c": (1, [])}, 5) == [(0, 1, "a"), (0, 2, "b"), (0, 3, "c")]
    assert candidate({"a": (3, ["b"]), "b": (1, []), "c": (2, [])}, 1) == [
        (0, 1, "b"),
        (1, 1, "a"),
        (4, 1, "c"),
    ]
    assert candidate({"a": (1, []), "b": (2, ["a"]), "c": (5, ["a"]), "d": (3, [])}, 2) == [
        (0, 1, "a"),
        (0, 2, "d"),
        (1, 1, "c"),
        (3, 2, "b"),
    ]
    assert candidate({"a": (2, []), "b": (2, []), "c": (1, ["a", "b"])}, 2) == [
        (0, 1, "a"),
        (0, 2, "b"),
        (2, 1, "c"),
    ]
    assert candidate({"a": (1, []), "b": (4, []), "c": (2, ["a", "b"])}, 2) == [
        (0, 1, "b"),
        (0, 2, "a"),
        (4, 1, "c"),
    ]
    assert candidate({"x": (1, []), "y": (1, ["x", "x"]), "z": (1, ["y"]), "k": (2, [])}, 1) == [
        (0, 1, "x"),
        (1, 1, "k"),
        (3, 1, "y"),
        (4, 1, "z"),
    ]
    assert rejects({"a": (1, [])}, 0)
    assert rejects({}, 0)
    assert rejects({"a": (0, [])}, 1)
    assert rejects({"a": (1, ["b"])}, 1)
    assert rejects({"a": (1, ["a"])}, 1)
    assert rejects({"a": (1, ["c"]), "b": (1, ["a"]), "c": (1, ["b"]), "d": (1, [])}, 2)
    chain = {f"j{index:03d}": (2, [f"j{index - 1:03d}"] if index else []) for index in range(150)}
    assert candidate(chain, 3) == [(2 * index, 1, f"j{index:03d}") for index in range(150)]
    flat = {f"j{index:03d}": (1, []) for index in range(200)}
    assert candidate(flat, 10) == [(index // 10, index % 10 + 1, f"j{index:03d}") for index in range(200)]
