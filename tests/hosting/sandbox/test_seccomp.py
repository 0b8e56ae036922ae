"""The system call filter answers calls that it does not know as an older kernel would."""

import errno
import subprocess
import sys

import pytest

from openenv.hosting.sandbox import seccomp

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not seccomp.is_supported(), reason="there is no filter for this processor"),
]

_PROGRAM = """
import ctypes, struct, sys
from openenv.hosting.sandbox.seccomp import apply, deny_filter

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
known_to_kernel = b"".join(struct.pack("=HBBI", *one) for one in (
    (0x20, 0, 0, 0), (0x15, 0, 1, NUMBER), (0x06, 0, 0, 0x00050000 | 5), (0x06, 0, 0, 0x7FFF0000)))
apply(known_to_kernel)
apply(deny_filter(is_apart=IS_APART, is_same_user=True, has_memory_group=False))
libc.syscall(NUMBER, 0, 0, 0, 0, 0, 0)
print(ctypes.get_errno())
"""
"""A filter below ours stands for a kernel that knows the call: it answers EIO. Of two errors the later one counts."""


@pytest.mark.parametrize("number", [380, 423, 470, 600, 0x3FFFFFFF])
@pytest.mark.parametrize("is_apart", [True, False])
def test_a_call_of_a_later_kernel_is_missing(number: int, is_apart: bool) -> None:
    program = _PROGRAM.replace("NUMBER", str(number)).replace("IS_APART", str(is_apart))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == errno.ENOSYS


@pytest.mark.parametrize("number", [24, 436])
def test_a_known_call_reaches_the_kernel(number: int) -> None:
    program = _PROGRAM.replace("NUMBER", str(number)).replace("IS_APART", "True")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert int(done.stdout) == errno.EIO
