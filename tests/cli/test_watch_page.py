"""The watched packet in docs/router.md is what the command prints."""

from pathlib import Path

import pytest

from pyxsim.cli.app import main

ROOT = Path(__file__).resolve().parents[2]


def test_the_log_in_the_page_is_the_real_one(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "router.md").read_text(encoding="utf-8")
    log = page.split("--watch 100\n```")[1].split("```text\n")[1].split("```")[0]
    assert len(log.splitlines()) > 20
    assert main(["run", str(ROOT / "inputs" / "torus_uniform.toml"), "--watch", "100"]) == 0
    told = capsys.readouterr().err
    assert log in "".join(line.rstrip() + "\n" for line in told.splitlines())
