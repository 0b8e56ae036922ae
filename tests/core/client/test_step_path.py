"""What a reader follows: the Python calls and files of one synchronous step on the client's side."""

import pytest
from benchmarks.traces.step import running_server, synchronous_step

pytestmark = pytest.mark.process


def test_a_synchronous_step_takes_at_most_15_calls_in_7_files():
    with running_server() as server:
        num_calls, num_files, _ = synchronous_step(server)["client"].figures()

    assert num_calls <= 15
    assert num_files <= 7
