"""A server that cannot listen names the address, the reason and the remedy."""

import pytest

from openenv.hosting.serving.listeners import open_listeners


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_number_that_is_no_port_is_refused_and_not_cut_to_one(port):
    with pytest.raises(ValueError, match=f"port={port}: give 1 to 65535, or 0 for a free one"):
        open_listeners("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused_with_the_remedy(host):
    with pytest.raises(OSError, match=rf"cannot listen on {host}:0: .+\. Give an address of this machine, such as"):
        open_listeners(host, 0)
