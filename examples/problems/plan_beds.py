"""assay/5: What to plant in a row of beds (dynamic programming)."""

# --- prompt ---


def plan_beds(beds: list[dict[str, int]]) -> tuple[int, list[str]]:
    """Choose one crop for each bed in a row so that the harvest is as large as possible.

    Each bed maps the crops that would grow there to their harvest, a whole number of at least
    0. Beds next to each other must not hold the same crop.

    Return the total harvest and the crop of each bed. Among equally good plans take the one
    whose list of crops sorts first. No beds give (0, []). Raise ValueError if a harvest is
    negative or if there is no plan at all.

    >>> plan_beds([{"kale": 5, "leek": 4}, {"kale": 6, "leek": 2}])
    (10, ['leek', 'kale'])
    """
    # --- solution ---
    if any(harvest < 0 for bed in beds for harvest in bed.values()):
        raise ValueError("a harvest must not be negative")
    rows: list[dict[str, tuple[int, str]]] = []
    for bed in reversed(beds):
        rows.append(extend_plan(bed, rows[-1] if rows else None))
    rows.reverse()
    return read_plan(rows)


def best_crop(row: dict[str, tuple[int, str]], banned: str | None) -> str | None:
    """Return the crop with the largest harvest from here on, other than a banned one."""
    crops = [crop for crop in sorted(row) if crop != banned]
    return max(crops, key=lambda crop: row[crop][0], default=None)


def extend_plan(bed: dict[str, int], after: dict[str, tuple[int, str]] | None) -> dict[str, tuple[int, str]]:
    """Map each usable crop of a bed to the best harvest from there on and the crop of the next bed."""
    row: dict[str, tuple[int, str]] = {}
    for crop, harvest in bed.items():
        if after is None:
            row[crop] = (harvest, "")
            continue
        follower = best_crop(after, crop)
        if follower is not None:
            row[crop] = (harvest + after[follower][0], follower)
    return row


def read_plan(rows: list[dict[str, tuple[int, str]]]) -> tuple[int, list[str]]:
    """Follow the best choices from the first bed to the last."""
    if not rows:
        return 0, []
    crop = best_crop(rows[0], None)
    if crop is None:
        raise ValueError("no plan keeps equal crops apart")
    total = rows[0][crop][0]
    plan = []
    for row in rows:
        plan.append(crop)
        crop = row[crop][1]
    return total, plan


# --- test ---
def check(candidate):
    def rejects(beds):
        try:
            candidate(beds)
        except ValueError:
            return True
        return False

    assert candidate([]) == (0, [])
    assert candidate([{"kale": 5, "leek": 4}, {"kale": 6, "leek": 2}]) == (10, ["leek", "kale"])
    assert candidate([{"kale": 3}]) == (3, ["kale"])
    assert candidate([{"kale": 3, "dill": 8, "leek": 5}]) == (8, ["dill"])
    assert candidate([{"": 8, "leek": 5}]) == (8, [""])
    assert candidate([{"leek": 7, "kale": 7, "rye": 7}]) == (7, ["kale"])
    assert candidate([{"pea": 0}, {"oat": 0}]) == (0, ["pea", "oat"])
    assert candidate([{"b": 1, "a": 1}] * 4) == (4, ["a", "b", "a", "b"])
    assert candidate([{"a": 9, "b": 1}, {"a": 9}, {"a": 9, "b": 2}]) == (12, ["b", "a", "b"])
    assert candidate([{"a": 9, "b": 1}, {"a": 3, "b": 2}, {"a": 9, "b": 1}]) == (20, ["a", "b", "a"])
    assert candidate([{"a": 10, "b": 9, "c": 9}, {"a": 10}, {"c": 1, "b": 1}]) == (20, ["b", "a", "b"])
    assert candidate([{"a": 4, "b": 4}, {"b": 5, "c": 1}, {"b": 4, "c": 0}]) == (9, ["a", "b", "c"])
    assert rejects([{}])
    assert rejects([{"a": 1}, {}])
    assert rejects([{"a": 1}, {"a": 1}])
    assert rejects([{"b": 1}, {"a": 1}, {"a": 1}])
    assert rejects([{"a": -1, "b": 2}])
    beds = [{"a": index % 5, "b": index % 3, "c": 1} for index in range(300)]
    before = [dict(bed) for bed in beds]
    total, plan = candidate(beds)
    assert beds == before
    assert len(plan) == 300
    assert all(plan[index] != plan[index + 1] for index in range(299))
    assert total == sum(bed[crop] for bed, crop in zip(beds, plan, strict=True)) == 600
