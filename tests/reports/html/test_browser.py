"""The page in a browser: Chromium without a screen, one session for all tests."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyxsim.reports.html import chapters, save
from pyxsim.reports.html.plotly_style import HEAT
from pyxsim.results.result import Result
from tests.reports.html.test_page import EVIL

pytest.importorskip("selenium", reason="pip install pyxsim[browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
    pytest.mark.skipif(DRIVER is None, reason="no driver of Chromium: apt-get install chromium-driver"),
]
ALONE = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1200,900",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for word in (*ALONE, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def opened(browser: Any, torus: Result, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The page of a collective whose warnings are nasty, in a light window; and what was asked of the network."""
    folder = tmp_path_factory.mktemp("page")
    torus.save(folder / "torus.h5")
    found = chapters([str(folder / "torus.h5")])
    save([*found], folder / "page.html")
    light(browser, dark=False)
    browser.get((folder / "page.html").as_uri())
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    url = (folder / "page.html").as_uri()
    asked = [each["request"]["url"] for each in sent if each["documentURL"] == url]  # not the empty tab before it
    return {"asked": asked, "url": url, "console": browser.get_log("browser")}


def light(browser: Any, *, dark: bool) -> None:
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def colours(browser: Any) -> list[str]:
    """The colour of each link on the map."""
    script = "return [...document.querySelectorAll('#network .choropleth path')].map(p => getComputedStyle(p).fill)"
    return [str(each) for each in browser.execute_script(script)]


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_it_opens_without_errors_and_without_a_network(browser: Any, opened: dict[str, Any]) -> None:
    assert opened["console"] == []
    assert [url for url in opened["asked"] if not url.startswith("data:")] == [opened["url"]]


def test_every_picture_is_drawn(browser: Any, opened: dict[str, Any], torus: Result) -> None:
    areas, drawn, inside = browser.execute_script(
        "const areas = [...document.querySelectorAll('.area')];"
        "return [areas.length, areas.filter(a => a.querySelector('svg.main-svg')).length,"
        " areas.every(a => a.querySelector('.main-svg').getBoundingClientRect().width <= a.clientWidth + 1)]"
    )
    assert areas == drawn > 5
    assert inside
    # A region for each link, and one for each router.
    assert len(colours(browser)) == len(torus.links) + 8


def test_the_slider_changes_what_is_drawn(browser: Any, opened: dict[str, Any], torus: Result) -> None:
    whole = colours(browser)
    slide = (
        "const done = arguments[arguments.length - 1], area = document.querySelector('#network .area');"
        "area.once = area.on('plotly_animated', () => done(area.layout.sliders[0].active));"
        "const step = area.layout.sliders[0].steps[arguments[0]];"
        "Plotly.animate(area, step.args[0], step.args[1]).then(() => done(arguments[0]))"
    )
    # The last window ends with the run: nearly nothing is sent any more.
    browser.execute_async_script(slide, len(torus.windows))
    last = colours(browser)
    links = len(torus.links)
    assert last != whole
    assert last[links:] == whole[links:]  # routers stay as they are
    idle = [color == rgb(HEAT["light"][0]) for color in last[:links]]
    assert idle == (torus.utilization[-1] == 0).tolist()
    browser.execute_async_script(slide, 0)
    assert colours(browser) == whole


def test_the_handle_can_be_dragged(browser: Any, opened: dict[str, Any]) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    whole = colours(browser)
    rail = browser.find_element(By.CSS_SELECTOR, "#network .slider-rail-touch-rect")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", rail)
    ActionChains(browser).move_to_element(rail).click().perform()
    WebDriverWait(browser, 10).until(lambda _: colours(browser) != whole)
    label = browser.find_element(By.CSS_SELECTOR, "#network .slider-label").text
    assert " to " in label
    assert label.endswith(" us")


def test_a_link_tells_what_it_is(browser: Any, opened: dict[str, Any], torus: Result) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    link = browser.find_element(By.CSS_SELECTOR, "#network .choropleth path")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", link)
    ActionChains(browser).move_to_element(link).perform()
    label = "return document.querySelector('#network .hovertext')?.textContent"
    WebDriverWait(browser, 10).until(lambda _: browser.execute_script(label))
    told = browser.execute_script(label)
    assert torus.links.name[0] in told
    assert "router 0 to " in told
    assert f"whole run: busy {100 * torus.link_utilization[0]:.1f}%, flits waited for a credit " in told


def test_another_npu_can_be_chosen(browser: Any, opened: dict[str, Any]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    menu = browser.find_element(By.CSS_SELECTOR, "#chunks .updatemenu-header")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", menu)
    shown = "return document.querySelector('#chunks .area').data.map(trace => trace.visible)"
    before = browser.execute_script(shown)
    menu.click()
    entries = browser.find_elements(By.CSS_SELECTOR, "#chunks .updatemenu-dropdown-button")
    assert len(entries) == len(before) / 2
    entries[1].click()
    WebDriverWait(browser, 10).until(lambda _: browser.execute_script(shown) != before)
    assert browser.execute_script(shown) == [2 <= i < 4 for i in range(len(before))]
    assert browser.find_elements(By.CSS_SELECTOR, "#chunks .barlayer .point path")


def test_it_plays(browser: Any, opened: dict[str, Any]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    frames = "const area = document.querySelector('#network .area'); area.seen = [];"
    browser.execute_script(f"{frames} area.on('plotly_animatingframe', e => area.seen.push(e.name))")
    play, stop = browser.find_elements(By.CSS_SELECTOR, "#network .updatemenu-button")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", play)
    play.click()
    seen = "return document.querySelector('#network .area').seen"
    WebDriverWait(browser, 10).until(lambda _: len(browser.execute_script(seen)) > 1)
    stop.click()
    first, second, *_ = map(int, browser.execute_script(seen))
    assert second == first + 1
    assert browser.get_log("browser") == []


def test_the_theme_is_the_system_s_or_the_button_s(browser: Any, opened: dict[str, Any]) -> None:
    """Paper and letters change together: those of the page by its style, those of pictures a moment later."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('#links .xtick text')).fill"
    seen = f"return [{paper}, {ink}]"
    bright = browser.execute_script(seen)

    def wait_for(right: Callable[[list[str]], bool]) -> Any:
        WebDriverWait(browser, 10).until(lambda _: right(browser.execute_script(seen)))
        return browser.execute_script(seen)

    light(browser, dark=True)
    dark = wait_for(lambda now: now[0] != bright[0] and now[1] != bright[1])
    browser.find_element(By.ID, "theme").click()
    wait_for(lambda now: now == bright)
    browser.find_element(By.ID, "theme").click()
    wait_for(lambda now: now == dark)
    light(browser, dark=False)
    assert browser.execute_script(seen) == dark  # who has chosen is not asked again
    browser.find_element(By.ID, "theme").click()
    wait_for(lambda now: now == bright)
    assert browser.get_log("browser") == []


def test_it_prints(browser: Any, opened: dict[str, Any]) -> None:
    data = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    pdf = base64.b64decode(data)
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 30_000


def test_it_fits_on_a_phone(browser: Any, opened: dict[str, Any]) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(opened["url"])
    wide, over = browser.execute_script(
        "const wide = document.documentElement.clientWidth;"
        "return [wide, [...document.querySelectorAll('.panel, .cards > div, h1, .area svg.main-svg')]"
        ".filter(e => e.getBoundingClientRect().right > wide + 1).length]"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide == 390
    assert over == 0


def test_words_of_users_stay_words(
    browser: Any, opened: dict[str, Any], build: Callable[..., Result], tmp_path: Path
) -> None:
    nasty = build(warnings=[EVIL], dimension_names=[EVIL], experiment_toml=f"# {EVIL}", failure=EVIL, complete=False)
    nasty.save(tmp_path / "nasty.h5")
    save(chapters([str(tmp_path / "nasty.h5")]), tmp_path / "nasty.html")
    browser.get((tmp_path / "nasty.html").as_uri())  # an alert would make the next command fail
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert EVIL in browser.execute_script("return document.querySelector('.alarm + .alarm').textContent")
    assert browser.get_log("browser") == []
