"""What servers with the API of SandboxFusion say, and what it means here."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Job, Limits, fusion


def ran(**fields: Any) -> dict[str, Any]:
    return {
        "status": "Finished",
        "return_code": 0,
        "stdout": "",
        "stderr": "",
        "execution_time": 0.5,
        **fields,
    }


GO = Job("script", {"main.go": ""}, lang="go", limits=Limits(output_kb=1))


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        ({"status": "Success", "run_result": ran(stdout="x")}, "ok", ""),
        ({"status": "Failed", "run_result": ran(return_code=7)}, "exit", "exit status 7"),
        ({"status": "Failed", "run_result": ran(return_code=-11)}, "signal", "killed by SIGSEGV"),
        (
            {"status": "Failed", "run_result": ran(status="TimeLimitExceeded", return_code=None)},
            "timeout",
            "wall clock limit of 5 s",
        ),
        (
            {"status": "Success", "run_result": ran(stdout="x" * 1025)},
            "output_limit",
            "more than 1 KiB of output",
        ),
        ({"status": "Failed", "compile_result": ran(return_code=2, stderr="bad\n")}, "compile_error", "bad"),
        (
            {"status": "Failed", "compile_result": ran(status="TimeLimitExceeded", return_code=None)},
            "compile_error",
            "the compiler: timeout",
        ),
        ({"status": "SandboxError", "message": "no\nroom"}, "infra_error", "the server failed: no room"),
        (
            {
                "status": "Failed",
                "compile_result": ran(return_code=127, stderr="bash: go: command not found\n"),
            },
            "infra_error",
            "the server lacks a tool: bash: go: command not found",
        ),
        ({"status": "Failed", "run_result": ran(status="Error")}, "infra_error", "the program was not run:"),
    ],
)
def test_statuses_of_the_api_become_ours(answer: dict[str, Any], status: str, detail: str) -> None:
    result = fusion.result_of(GO, answer)
    assert (result.status, result.detail.strip()) == (status, detail)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "Success"},
        {"status": "Success", "run_result": ran(return_code=1)},
        {"status": "Failed", "run_result": ran()},
        {"status": "Success", "run_result": ran(return_code=None)},
        {"status": "Success", "run_result": ran(execution_time=-1)},
        {"status": "Success", "run_result": ran(stdout=3)},
        {"status": "Success", "run_result": ran(return_code=10**30)},
        {"run_result": ran()},
        [],
        None,
    ],
)
def test_an_answer_that_makes_no_sense_is_none(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"an answer|a command|a run"):
        fusion.result_of(GO, answer)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
COMMAND = st.dictionaries(
    st.sampled_from(["status", "return_code", "stdout", "stderr", "execution_time"]), VALUES
)


@given(
    st.dictionaries(
        st.sampled_from(["status", "message", "compile_result", "run_result"]),
        VALUES | COMMAND | COMMAND.map(lambda fields: ran(**fields)) | st.sampled_from(["Success", "Failed"]),
    )
)
def test_no_answer_becomes_anything_but_a_result_or_an_error(answer: Any) -> None:
    try:
        result = fusion.result_of(GO, answer)
    except ValueError:
        return
    assert result.status != "ok" or answer["run_result"]["return_code"] == 0
