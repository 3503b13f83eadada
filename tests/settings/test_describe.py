"""What a key may be, in words."""

from __future__ import annotations

from pyxsim.settings import Dimension, Network, RouterSettings, Workload
from pyxsim.settings.describe import words_of


def test_what_a_key_may_be_is_told_in_words() -> None:
    assert words_of(Network, "flit") == "a size such as '4 KiB'"
    assert words_of(Network, "bandwidth") == "a bandwidth such as '100 GB/s' or a list of such"
    assert words_of(Network, "dims") == "a list, each a table"
    assert words_of(RouterSettings, "buffer") == "'auto' or a whole number from 1 to 1048576"
    assert words_of(RouterSettings, "pipeline") == "'booksim' or 'garnet' or a table"
    assert words_of(RouterSettings, "output_queue") == "true or false"
    assert words_of(Dimension, "block") == "a text"
    assert words_of(Workload, "comm_scale") == "a number"
