"""The page in headless Chromium: it asks for nothing, draws, sorts and filters, and whatever a record says stays text.

Skipped where there is no Chromium with its driver, or no selenium.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.signoff.made import changed, finding, gathered, table
from tests.signoff.test_report import HOSTILE
from validate.signoff import report
from validate.signoff.reading import engines, evals
from validate.verdict import Verdict

webdriver = pytest.importorskip("selenium.webdriver")
html = pytest.importorskip("validate.signoff.html")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="Chromium or its driver is not installed")
WIDTHS = (390, 1440)
# Nothing that Chromium does by itself, where there is no network.
QUIET = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
QUIET += ("disable-component-update", "disable-sync", "hide-scrollbars")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (*QUIET, f"user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.get("about:blank")  # the page that it starts with has loaded by then
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With plots, a long table, and hostile text wherever a record may hold text."""
    check = finding(Verdict.FAIL, HOSTILE)
    changes: dict[str, Any] = {"headline": HOSTILE, "ran": "x" * 10_000_000, "verdict": Verdict.FAIL, "checks": (check,)}
    given = changed(evals.PART, tables=(table(40), table(2, HOSTILE)))
    given = [one.model_copy(update=changes) if one.part == engines.LONG else one for one in given]
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(html.render(report.made(gathered(given), None)), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def opened(browser: Any, page: str) -> Callable[..., Any]:
    """Opens the page at a width, in light or dark, for the screen or for paper."""

    def at(width: int = 1440, scheme: str = "light", media: str = "screen") -> Any:
        browser.get_log("performance")
        browser.get_log("browser")
        device = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        browser.get(page)
        return browser

    return at


def test_it_opens_without_an_error_and_asks_for_nothing(opened: Callable[..., Any], page: str) -> None:
    browser = opened()
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [one["request"]["url"] for one in sent if one["documentURL"] == page] == [page]


def test_the_decision_is_on_the_first_screen(opened: Callable[..., Any]) -> None:
    for width in WIDTHS:
        browser = opened(width)
        head = browser.find_element("tag name", "h1")
        assert head.text.startswith("Not signed")
        assert head.rect["y"] < 300


def test_plots_are_drawn_in_the_pages_colours(opened: Callable[..., Any]) -> None:
    drawings = opened().find_elements("css selector", ".plot svg")
    assert len(drawings) == 3
    for drawing in drawings:
        assert drawing.rect["width"] > 500
        assert drawing.rect["height"] > 80
        assert drawing.find_elements("tag name", "text")
    script = "return getComputedStyle(document.querySelector('.plot svg text')).fill"
    light, dark = (opened(scheme=scheme).execute_script(script) for scheme in ("light", "dark"))
    assert (light, dark) == ("rgb(26, 28, 30)", "rgb(230, 232, 234)")


def test_a_table_sorts_by_a_click_and_by_the_keyboard(opened: Callable[..., Any]) -> None:
    browser = opened()
    items = browser.find_element("xpath", "//figure[.//figcaption='Items'][.//input]//table")
    score = items.find_elements("css selector", "th")[1]
    button = score.find_element("tag name", "button")

    def column() -> list[int]:
        return [int(cell.text) for cell in items.find_elements("css selector", "tbody td:nth-child(2)")]

    button.click()
    assert score.get_attribute("aria-sort") == "ascending"
    assert column() == list(range(40))
    button.send_keys("\n")
    assert score.get_attribute("aria-sort") == "descending"
    assert column() == list(range(39, -1, -1))


def test_a_table_is_filtered(opened: Callable[..., Any]) -> None:
    browser = opened()
    figure = browser.find_element("xpath", "//figure[.//figcaption='Items'][.//input]")
    figure.find_element("tag name", "input").send_keys("item 7")
    left = [row.text for row in figure.find_elements("css selector", "tbody tr") if row.is_displayed()]
    assert left == ["an item 7 7"]
    assert figure.find_element("tag name", "output").text == "1 of 40 rows"


def test_hostile_text_stays_text(opened: Callable[..., Any]) -> None:
    browser = opened()
    assert len(browser.find_elements("tag name", "script")) == 1
    assert browser.find_elements("css selector", "[onload], [onerror], img, iframe") == []
    said = browser.find_element("tag name", "body").text
    assert "<script>alert(1)</script>" in said
    assert "[U+202E]gnp.exe" in said
    assert "9,998,000 more characters" in said


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_no_wider_than_the_screen(opened: Callable[..., Any], width: int) -> None:
    assert opened(width).execute_script("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_everything(opened: Callable[..., Any]) -> None:
    browser = opened()
    script = """
      const wanted = [...document.querySelectorAll('a[href], button, input, summary, [tabindex="0"]')];
      return wanted.filter((one) => one.tabIndex < 0 || one.disabled).length + ' of ' + wanted.length"""
    assert browser.execute_script(script).startswith("0 of ")
    webdriver.ActionChains(browser).send_keys("\t").perform()
    first = browser.switch_to.active_element
    assert first.text == "Skip to the report"
    assert first.rect["x"] >= 0


def test_headings_and_names_are_what_a_screen_reader_needs(opened: Callable[..., Any]) -> None:
    browser = opened()
    assert browser.find_element("tag name", "html").get_attribute("lang") == "en"
    levels = [int(one.tag_name[1]) for one in browser.find_elements("css selector", "h1, h2, h3, h4")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    unnamed = """
      return [...document.querySelectorAll("[aria-labelledby]")]
        .filter((one) => !document.getElementById(one.getAttribute("aria-labelledby"))).length"""
    assert browser.execute_script(unnamed) == 0
    assert browser.execute_script("return [...document.querySelectorAll('input')].filter((e) => !e.labels.length).length") == 0


CONTRAST = """
  const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (text) => parts(text).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll('.verdict, a, p, td, .note, figcaption, dt, svg text')].map((one) => {
    const style = getComputedStyle(one), ink = light(one instanceof SVGElement ? style.fill : style.color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  })"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(opened: Callable[..., Any], scheme: str) -> None:
    """4.5 is what WCAG 2.2 asks of text (level AA, 1.4.3)."""
    assert min(opened(scheme=scheme).execute_script(CONTRAST)) >= 4.5


def test_it_prints(opened: Callable[..., Any], tmp_path: Path) -> None:
    browser = opened(scheme="dark", media="print")
    assert not browser.find_element("tag name", "nav").is_displayed()
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(browser.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 20_000
    folded = "return [...document.querySelectorAll('details:not([open]) li')].map(one => one.checkVisibility())"
    assert set(browser.execute_script(folded)) == {True}  # it is printed
    soft = "return getComputedStyle(document.documentElement).getPropertyValue('--soft').trim()"
    assert browser.execute_script(soft) == "#55595e"  # the light scheme's, on white
