from collections.abc import Sequence

FLOW_COUNTERS: Sequence[str]
FLOW_COLUMNS: Sequence[str]
PORT_COUNTERS: Sequence[str]
FLOW_TIMES: Sequence[str]
