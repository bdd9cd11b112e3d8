"""Rows of problem sets in the layouts in which they are published, written for the tests."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from miner.config import ImportConfig
from miner.importers.formats import FORMATS
from miner.importers.making import Reading
from miner.importers.problems import import_problems, plan_problems
from schemas.declare import validate
from schemas.records import Problem
from schemas.stage import Drop, Keep, Outcome

Row = dict[str, Any]

PROMPT = 'def add(a, b):\n    """Add two numbers."""\n'
BODY = "    return a + b\n"
CHECK = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
ADD = "def add(a, b):\n    return a + b\n"
SUM = "print(sum(map(int, input().split())))\n"
SUM_CPP = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }\n"


def humaneval(number: int = 0, **change: Any) -> Row:
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": PROMPT,
        "entry_point": "add",
        "canonical_solution": BODY,
        "test": CHECK,
        **change,
    }


def humaneval_plus(number: int = 0, **change: Any) -> Row:
    row = humaneval(number)
    del row["test"]
    more = {"contract": "", "base_input": [[1, 2]], "plus_input": [[3, 4], [-1, 1]], "atol": 0}
    return {**row, **more, **change}


def mbpp(number: int = 1, **change: Any) -> Row:
    return {
        "task_id": number,
        "text": "Write a function to add two numbers.",
        "code": "def helper(x):\r\n    return x\r\ndef add(a, b):\r\n    return helper(a) + b",
        "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"],
        "test_setup_code": "",
        "challenge_test_list": ["assert add(-1, 1) == 0"],
        **change,
    }


def mbpp_sanitized(number: int = 2, **change: Any) -> Row:
    return {
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "task_id": number,
        "prompt": "Write a function to add two numbers.",
        "code": ADD,
        "test_imports": ["import math"],
        "test_list": ["assert math.isclose(add(0.1, 0.2), 0.3)"],
        **change,
    }


def mbpp_plus(number: int = 2, **change: Any) -> Row:
    return {
        "task_id": f"Mbpp/{number}",
        "prompt": '"""\nWrite a function to add two numbers.\nassert add(1, 2) == 3\n"""\n',
        "entry_point": "add",
        "canonical_solution": f"\n{ADD}",
        "base_input": [[1, 2]],
        "plus_input": [[3, 4]],
        "atol": 0,
        "contract": "",
        "assertion": "\nassert add(1, 2) == 3\n",
        **change,
    }


def mbpp_plus_on_the_hub(number: int = 2, **change: Any) -> Row:
    test = "results = [3]\nfor inp, exp in zip([[1, 2]], results):\n    assert add(*inp) == exp\n"
    return {**mbpp_sanitized(number), "test_list": ["assert add(1, 2) == 3"], "test": test, **change}


def bigcodebench(number: int = 0, **change: Any) -> Row:
    prompt = 'import itertools\n\ndef task_func(numbers):\n    """Sum."""\n'
    return {
        "task_id": f"BigCodeBench/{number}",
        "complete_prompt": prompt,
        "instruct_prompt": "Sum.",
        "canonical_solution": "    return sum(itertools.chain(numbers))",
        "code_prompt": "import itertools\ndef task_func(numbers):\n",
        "test": "import unittest\nclass TestCases(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.assertEqual(task_func([1, 2]), 3)\n",
        "entry_point": "task_func",
        "doc_struct": "{}",
        "libs": "['itertools']",
        **change,
    }


def kodcode(number: int = 0, **change: Any) -> Row:
    return {
        "version": "v1.0",
        "style": "instruct",
        "subset": "Prefill",
        "question_id": f"Prefill_{number}_I",
        "question": "Write a function that adds two numbers.",
        "solution": ADD,
        "test": "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        "test_info": [
            {
                "docstring": "",
                "function_declaration": "def add(a, b):",
                "function_name": "add",
                "parameter_list": "(a, b)",
            }
        ],
        "gpt_pass_sequence": [1, 0],
        "gpt_pass_trial_num": 1,
        "gpt_difficulty": "easy",
        "gpt_pass_percentage": 0.5,
        "trials": {"trial_0": {"file_coverage": 1.0}},
        "metadata": {"original_instruction": "Add."},
        **change,
    }


def apps(number: int = 0, **change: Any) -> Row:
    tests = {"inputs": ["1 2\n", ["3 4"]], "outputs": ["3\n", ["7"]]}
    return {
        "problem_id": number,
        "question": "Print the sum of two numbers.",
        "solutions": json.dumps([SUM, "a, b = map(int, input().split())\nprint(a + b)\n"]),
        "input_output": json.dumps(tests),
        "difficulty": "interview",
        "url": "https://example.org/problem",
        "starter_code": "",
        **change,
    }


def called(fn_name: str, inputs: list[Any], outputs: list[Any]) -> str:
    return json.dumps({"fn_name": fn_name, "inputs": inputs, "outputs": outputs})


def taco(number: int = 0, **change: Any) -> Row:
    row = apps(number)
    del row["problem_id"]
    more = {
        "difficulty": "EASY",
        "raw_tags": "['math']",
        "name": f"Sum {number}",
        "source": "codeforces",
        "tags": "['Mathematics']",
        "skill_types": "[]",
        "Expected Auxiliary Space": None,
        "time_limit": "2.0 seconds",
        "date": "2019-12-31T10:00:00",
        "picture_num": None,
        "memory_limit": "256.0 megabytes",
        "Expected Time Complexity": None,
    }
    return {**row, **more, **change}


def codecontests(number: int = 0, **change: Any) -> Row:
    return {
        "name": f"{number}_A. Sum",
        "description": "Print the sum of two numbers.",
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": {"input": ["3 4\n"], "output": ["7\n"]},
        "generated_tests": {"input": ["5 6\n"], "output": ["11\n"]},
        "source": 2,
        "difficulty": 7,
        "solutions": {"language": [1, 3, 2, 3], "solution": ["print 1", SUM, SUM_CPP, f"{SUM}#"]},
        "incorrect_solutions": {"language": [3], "solution": ["print(3)"]},
        "cf_contest_id": 1000 + number,
        "cf_index": "A",
        "cf_points": 500.0,
        "cf_rating": 800,
        "cf_tags": ["math"],
        "is_description_translated": False,
        "untranslated_description": "",
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 256 << 20,
        "input_file": "",
        "output_file": "",
        **change,
    }


def pack(text: Any, protocol: int = 4) -> str:
    """Text as LiveCodeBench packs its private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(text, protocol))).decode()


def livecodebench(number: int = 0, **change: Any) -> Row:
    case = {"input": "1 2\n", "output": "3\n", "testtype": "stdin"}
    return {
        "question_title": "Sum",
        "question_content": "Print the sum of two numbers.",
        "platform": "codeforces",
        "question_id": f"{number}_A",
        "contest_id": str(number),
        "contest_date": "2023-08-21T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps([case]),
        "private_test_cases": pack(json.dumps([{**case, "input": "3 4\n", "output": "7\n"}])),
        "metadata": "{}",
        "solution": SUM,
        **change,
    }


def verifiable(number: int = 0, **change: Any) -> Row:
    case = {"fn_name": None, "input": "1 2\n", "output": "3\n", "type": "stdin_stdout"}
    return {
        "source": "apps",
        "task_type": "verifiable_code",
        "in_source_id": "7",
        "prompt": "Print the sum of two numbers.",
        "gold_standard_solution": f"```python\n{SUM}```",
        "verification_info": {"language": "python", "test_cases": [case]},
        "metadata": {"difficulty": "easy"},
        "problem_id": f"vfc_{number}",
        **change,
    }


def plain(number: int = 0, **change: Any) -> Row:
    return {
        "name": f"add-{number}",
        "prompt": "Add two numbers.",
        "entry_point": "add",
        "solution": ADD,
        "tests": [{"kind": "call", "args": [1, 2], "expected": 3}],
        **change,
    }


LAYOUTS = {
    "humaneval": humaneval,
    "humaneval+": humaneval_plus,
    "mbpp": mbpp,
    "mbpp+": mbpp_plus,
    "bigcodebench": bigcodebench,
    "kodcode": kodcode,
    "apps": apps,
    "taco": taco,
    "codecontests": codecontests,
    "livecodebench": livecodebench,
    "verifiable": verifiable,
    "plain": plain,
}


def read(form: str, row: Row, source: str = "x", seed: int = 0, **settings: Any) -> list[Problem]:
    """Problems of one row, each checked against the schema."""
    problems = FORMATS[form].read(row, Reading(source, ImportConfig(**settings), seed))
    for one in problems:
        validate(Problem, one)
    return problems


def write(path: Path, *rows: Any) -> Path:
    """A file of rows by its name's ending; bytes are written as they are."""
    if path.name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=3)
        return path
    items = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in rows]
    listed = path.name.endswith((".json", ".json.gz"))
    data = b"[" + b",\n ".join(items) + b"]" if listed else b"".join(item + b"\n" for item in items)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def run(*files: Path | str, seed: int = 0, limit: int | None = None, **settings: Any) -> list[Outcome]:
    """Plan and import, with the accounting checked."""
    config = ImportConfig(**settings)
    outcomes: list[Outcome] = []
    for unit in plan_problems(config, files, limit):
        found = list(import_problems(config, unit, seed))
        assert len(found) == unit.rows
        outcomes += found
    return outcomes


def kept(outcomes: Iterable[Outcome]) -> list[Problem]:
    """Problems of the rows that were kept."""
    return [problem for one in outcomes if isinstance(one, Keep) for problem in one.records]


def dropped(outcomes: Iterable[Outcome]) -> list[Drop]:
    return [one for one in outcomes if isinstance(one, Drop)]
