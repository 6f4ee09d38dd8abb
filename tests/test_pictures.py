"""The pictures of the README: drawn from what was measured and answered, and there in light and dark."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benchmarks.harness import Bar
from benchmarks.plots import save

ROOT = Path(__file__).parent.parent
SVG = "{http://www.w3.org/2000/svg}"
BARS = [
    Bar("half of the time", 1.0, 2.0, "s", 1, peer_name="Peer & Co"),
    Bar("four times the bytes", 8.0, 2.0, "MB", 1.5, peer_name="Peer"),
    Bar("no peer", 1.0, None, "s"),
]


def texts(file: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ET.parse(file).iter(f"{SVG}text")]  # noqa: S314 - drawn here


def test_bars_with_a_peer_are_drawn_in_light_and_dark(tmp_path):
    light, dark = save(tmp_path, "some", "What <it> takes", "2 cores", BARS)
    assert [light.name, dark.name] == ["bench-some-light.svg", "bench-some-dark.svg"]
    assert texts(light) == texts(dark)
    assert texts(light)[:2] == ["What <it> takes", "Ours as a multiple of the peer; 2 cores"]
    assert {"0.50x Peer & Co", "4.00x Peer"} <= set(texts(light))
    assert "no peer" not in texts(light)
    less, more = (node for node in ET.parse(light).iter(f"{SVG}rect") if node.get("height") == "16")  # noqa: S314
    assert float(less.get("x")) + float(less.get("width")) == float(more.get("x"))
    assert float(more.get("width")) == 2 * float(less.get("width"))
    assert save(tmp_path, "none", "t", "2 cores", BARS[2:]) == []


@pytest.mark.slow
def test_the_notebook_shows_what_its_cells_answer(tmp_path):
    subprocess.run([sys.executable, ROOT / "examples" / "notebook.py", tmp_path], check=True)
    shown = texts(tmp_path / "notebook-light.svg")
    assert shown == texts(tmp_path / "notebook-dark.svg") == texts(ROOT / "docs" / "images" / "notebook-light.svg")
    assert "query timeout after 30 s, connection closed" in shown
    assert "upstream timeout, 3 requests lost" not in shown


def test_the_readme_names_pictures_that_are_there_in_both_colours():
    text = (ROOT / "README.md").read_text()
    dark = re.findall(r'<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)"', text)
    light = re.findall(r'<img [^>]*src="([^"]+)"', text)
    assert [name.replace("-dark.svg", "-light.svg") for name in dark] == light
    assert light
    for name in (*dark, *light):
        assert ET.parse(ROOT / name).getroot().tag == f"{SVG}svg"  # noqa: S314 - our own files
