"""Rows from the text of nodes in JSON, without objects of Python: of those that are as writers of traces write them."""

from collections.abc import Mapping

from pyxsim.chakra.rows import Rows

class JsonRows:
    """Takes usual nodes; leaves the first one of each class, and all in which anything is unusual or wrong.

    Attributes
    ----------
    taken
        The number of nodes that were taken.
    """

    taken: int

    def __init__(
        self, rows: Rows, fields: Mapping[str, str], values: Mapping[str, str], types: Mapping[str, int]
    ) -> None:
        """`fields`: names in JSON -> fields of nodes. `values`: the same of attributes. `types`: numbers by name."""

    def take(self, text: str, at: int, listed: bool) -> int:
        """Take nodes from a character on, up to one that is not taken; return where that begins.

        `listed`: whether the nodes are entries of a list, of which only those before a comma are taken. A node that
        was left has to be given to ``rows.add`` before the next call.
        """
