"""Pages in a real browser: sorting, the slider, the Gantt chart, zoom, two widths, two themes, no console messages."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import WIDTHS, browser, complaints, show, wait
from site_case import HOSTILE, TRACK, make_site

from gpusched_env.evaluation import evaluate
from gpusched_env.leaderboard import TRACKS
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.reports import write_report
from gpusched_env.scenarios import WorkloadSpec, get_scenario

pytest.importorskip("jinja2")
PLOT = "document.querySelector('[data-part=\"left-plot\"]')"
OTHER = "document.querySelector('[data-part=\"right-plot\"]')"


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def report(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "out.html"
    results = evaluate("tiny-v1", ["fifo", "srtf"], [0, 1], progress=False, keep_logs=True)
    write_report(get_scenario("tiny-v1").instance(0), [results[0], results[2]], path)
    return path.as_uri()


@pytest.fixture(scope="module")
def site(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_site(tmp_path_factory.mktemp("leaderboard"))[0]


def column(driver: Any, number: int) -> list[str]:
    rows = driver.find_elements("css selector", "table.sortable tbody tr:not(.bound)")
    return [row.find_elements("css selector", "th, td")[number].get_attribute("data-value") for row in rows]


def press(driver: Any, selector: str) -> None:
    """Click by script, since a sticky bar may cover the element."""
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def slide(driver: Any, value: int) -> None:
    move = "const s = document.querySelector('[data-part=\"slider\"]'); s.value = arguments[0]; "
    driver.execute_script(move + "s.dispatchEvent(new Event('input', {bubbles: true}))", value)


def text(driver: Any, selector: str) -> str:
    return str(driver.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def axis(driver: Any, plot: str) -> list[float]:
    found: list[float] = driver.execute_script(f"return {plot}.layout.xaxis.range")
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_a_report_fits_its_window_and_follows_the_theme(driver: Any, report: str, width: int, dark: bool) -> None:
    show(driver, report, width, dark)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    for plot in driver.find_elements("css selector", ".plot"):
        assert plot.size["width"] <= width
        assert plot.size["height"] > 200
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    paper = driver.execute_script(f"return {PLOT}.layout.paper_bgcolor")
    assert (ground == "rgb(18, 22, 27)", paper == "#12161b") == (dark, dark)
    beside = driver.execute_script(f"return {PLOT}.getBoundingClientRect().top === {OTHER}.getBoundingClientRect().top")
    assert beside == (width >= 960)
    assert complaints(driver) == []


def edge(driver: Any, box: Any) -> int:
    """Contrast of the right edge of a box, below the text of its last row, to the row's other pixels."""
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(box.screenshot_as_png)).convert("L")).astype(int)
    row = pixels[-5]
    return int(abs(row[-4] - np.median(row)))


@pytest.mark.parametrize("dark", [False, True])
def test_a_wide_table_on_a_phone_shows_that_it_scrolls(driver: Any, report: str, dark: bool) -> None:
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})  # as phones do
    try:
        show(driver, report, 390, dark)
        box = driver.find_element("css selector", ".scroll")
        assert edge(driver, box) > 20
        driver.execute_script("arguments[0].scrollLeft = arguments[0].scrollWidth", box)
        assert edge(driver, box) < 5
        show(driver, report, 1280, dark)
        assert edge(driver, driver.find_element("css selector", ".scroll")) < 5
    finally:
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": False})


def test_a_browser_without_unpacking_is_told_so(driver: Any, report: str) -> None:
    old = driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"}
    )
    try:
        driver.get("about:blank")
        driver.get(report)
        wait(driver, "return document.querySelector('.failed').textContent.includes('needs a browser of 2023')")
        assert driver.find_elements("css selector", "table")
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", old)
        complaints(driver)  # the next test begins without them


def test_the_theme_may_change_while_a_page_is_open(driver: Any, report: str) -> None:
    show(driver, report, 1280)
    theme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", theme)
    wait(driver, f"return {PLOT}.layout.paper_bgcolor === '#12161b'")
    assert complaints(driver) == []


def test_bars_are_drawn_for_the_jobs_of_the_log(driver: Any, report: str) -> None:
    show(driver, report, 1280)
    told = driver.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0].bars.job")
    drawn = driver.execute_script(f"return {PLOT}.querySelectorAll('.barlayer .point').length")
    assert drawn == len(told) >= 12


def test_the_slider_tells_the_queue_at_its_time(driver: Any, report: str) -> None:
    show(driver, report, 1280)
    run = driver.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0]")
    for value in (0, 150, 400, 990):
        slide(driver, value)
        end = max(
            driver.execute_script(
                "return JSON.parse(document.getElementById('data').textContent).runs.map((r) => r.tick_s * r.ticks)"
            )
        )
        tick = value / 1000 * end / run["tick_s"]
        waits = zip(run["waits"]["start"], run["waits"]["end"], strict=True)
        waiting = sum(start <= tick < stop for start, stop in waits)
        finished = sum(finish <= tick for finish in run["jobs"]["finish"])
        arrived = sum(arrival <= tick for arrival in run["jobs"]["arrival"])
        counts = f"{arrived - finished - waiting} running, {waiting} waiting, {finished} finished"
        wait(driver, "return document.querySelector('.counts').textContent.startsWith(arguments[0])", counts)
        wait(driver, f"return Math.abs({PLOT}.layout.shapes[0].x0 - {OTHER}.layout.shapes[0].x0) < 1e-9")
    assert complaints(driver) == []


def test_both_schedules_zoom_together(driver: Any, report: str) -> None:
    show(driver, report, 1280)
    whole = axis(driver, PLOT)
    press(driver, '[data-part="closer"]')
    wait(driver, f"return {OTHER}.layout.xaxis.range[1] - {OTHER}.layout.xaxis.range[0] < arguments[0]", whole[1] * 0.6)
    assert axis(driver, PLOT) == pytest.approx(axis(driver, OTHER))
    # like a zoom by mouse
    driver.execute_script(f"Plotly.relayout({PLOT}, {{'xaxis.range[0]': 0.5, 'xaxis.range[1]': 0.75}})")
    wait(driver, f"return {OTHER}.layout.xaxis.range[0] === 0.5 && {OTHER}.layout.xaxis.range[1] === 0.75")
    press(driver, '[data-part="all"]')
    wait(driver, f"return {OTHER}.layout.xaxis.range[1] === arguments[0]", whole[1])
    assert axis(driver, PLOT) == whole
    assert complaints(driver) == []


def test_a_job_that_is_clicked_is_followed(driver: Any, report: str) -> None:
    show(driver, report, 1280)
    click = f"{PLOT}.emit('plotly_click', {{points: [{{data: {{name: 'jobs'}}, pointIndex: 0}}]}})"
    driver.execute_script(click)
    wait(driver, "return document.querySelectorAll('.chosen').length === 2")
    opacity = driver.execute_script(f"return {PLOT}.data[1].marker.opacity")
    jobs = driver.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0].bars.job")
    assert [faded < 1 for faded in opacity] == [job != jobs[0] for job in jobs]
    driver.execute_script(click)
    wait(driver, "return document.querySelectorAll('.chosen').length === 0")


def test_a_job_is_followed_by_keyboard(driver: Any, report: str) -> None:
    from selenium.webdriver.common.keys import Keys

    show(driver, report, 1280)
    choice = driver.find_element("css selector", '[data-part="follow"]')
    assert len(choice.find_elements("css selector", "option")) == 1 + 12
    choice.send_keys(Keys.ARROW_DOWN)
    wait(driver, "return document.querySelectorAll('.chosen').length === 2")
    followed = choice.find_elements("css selector", "option")[1].text
    assert text(driver, ".chosen").startswith(followed)
    choice.send_keys(Keys.ARROW_UP)
    wait(driver, "return document.querySelectorAll('.chosen').length === 0")
    driver.execute_script(f"{PLOT}.emit('plotly_click', {{points: [{{data: {{name: 'jobs'}}, pointIndex: 0}}]}})")
    wait(driver, "return document.querySelector('[data-part=\"follow\"]').value !== ''")
    assert complaints(driver) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_heat_maps_label_their_links(driver: Any, tmp_path: Path, width: int) -> None:
    results = evaluate("leaf-spine-256-v1", ["fifo-skip"], [0], progress=False, keep_logs=True)
    write_report(get_scenario("leaf-spine-256-v1").instance(0), results, tmp_path / "out.html")
    show(driver, (tmp_path / "out.html").as_uri(), width)
    ticks = f"return Array.from({PLOT}.querySelectorAll('.y4tick text'))"
    names = driver.execute_script(f"{ticks}.map((tick) => tick.textContent)")
    told = driver.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0].links.names")
    assert names == told
    tops = driver.execute_script(f"{ticks}.map((tick) => tick.getBoundingClientRect().top)")
    gaps = [abs(a - b) for a, b in itertools.pairwise(tops)]
    assert min(gaps) >= 9  # as high as the letters


@pytest.mark.parametrize("page", ["index.html", f"track-{TRACK}.html"])
def test_tables_sort(driver: Any, site: Path, page: str) -> None:
    show(driver, (site / page).as_uri(), 1280)
    ranks = [float(value) for value in column(driver, 0)]
    assert ranks == sorted(ranks)
    best = [float(value) for value in column(driver, 2)]
    assert best == sorted(best, reverse=True)
    press(driver, "table.sortable thead th:nth-child(1) button")
    assert [float(value) for value in column(driver, 2)] == best[::-1]
    heading = "table.sortable thead th:nth-child(4)"
    press(driver, f"{heading} button")
    values = [float(value) for value in column(driver, 3)]
    assert values == sorted(values)
    assert driver.find_element("css selector", heading).get_attribute("aria-sort") == "ascending"
    press(driver, "table.sortable thead th:nth-child(2) button")
    names = [row.text.lower() for row in driver.find_elements("css selector", "table.sortable tbody th")]
    assert names == sorted(names)
    assert complaints(driver) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_rank_and_name_stay_while_a_table_scrolls(driver: Any, site: Path, width: int) -> None:
    show(driver, (site / f"track-{TRACK}.html").as_uri(), width)
    places = """return [".rank", "th.name", "td.rank", "tbody th", "tbody td:nth-child(4)"].map((one) =>
        document.querySelector(`table.sortable ${one}`).getBoundingClientRect().left)"""
    before = driver.execute_script(places)
    driver.execute_script("document.querySelector('.scroll').scrollLeft = 150")
    after = driver.execute_script(places)
    assert after[:4] == pytest.approx(before[:4], abs=1.0)
    assert after[4] < before[4] - 50
    assert after[3] == pytest.approx(after[1], abs=1.0)  # a heading stands above its column


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_of_the_site_fit_and_log_nothing_to_the_console(driver: Any, site: Path, width: int) -> None:
    pages = sorted(site.glob("*.html"))
    assert len(pages) == 1 + len(TRACKS) + 3
    for path in pages:
        show(driver, path.as_uri(), width)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width, path.name
        assert complaints(driver) == []


def test_a_track_shows_the_seed_and_the_entries_of_its_address(driver: Any, site: Path) -> None:
    url = (site / f"track-{TRACK}.html").as_uri()
    show(driver, url, 1280)
    page = driver.execute_script("return JSON.parse(document.getElementById('page').textContent)")
    keys, seeds = [entry["key"] for entry in page["entries"]], page["seeds"]
    best = text(driver, '[data-part="left"] h3')
    assert best.startswith("fifo (")
    show(driver, f"{url}#seed={seeds[3]}&left={keys[1]}", 1280)
    assert text(driver, '[data-part="left"] h3') == HOSTILE
    assert driver.execute_script("return document.querySelector('[data-part=\"right\"]').hidden")
    wanted = [f"{TRACK}/{seeds[3]}/{keys[1]}", f"{TRACK}/{seeds[3]}/lines", f"{TRACK}/distributions"]
    wait(driver, "return Object.keys(window.gpusched.data).length === 3")
    loaded = driver.execute_script("return Object.keys(window.gpusched.data).sort()")
    assert loaded == sorted(wanted)
    show(driver, f"{url}#seed=../../evil&left=../../../evil", 1280)  # unknown values in an address are ignored
    assert text(driver, '[data-part="left"] h3') == best
    assert complaints(driver) == []


def test_jobs_waiting_have_whole_ticks(driver: Any, tmp_path: Path) -> None:
    """Two jobs on one GPU: one waits; ticks of half a job would be wrong."""
    two = WorkloadSpec("synthetic:batch", profiles="unit", jobs=2, max_gpus=1)
    scenario = get_scenario("tiny-v1").replace(groups=(NodeGroup(1, 1),), workload=two)
    write_report(scenario.instance(0), evaluate(scenario, ["fifo"], [0], keep_logs=True), tmp_path / "two.html")
    show(driver, (tmp_path / "two.html").as_uri(), WIDTHS[0], dark=False)
    over_time = "document.getElementById('over-time')"
    for plot, layer in ((over_time, "y2"), (PLOT, "y3")):
        labels = f"return [...{plot}.querySelectorAll('.{layer}tick text')].map((label) => label.textContent)"
        ticks = driver.execute_script(labels)
        assert len(ticks) > 1
        assert all(tick.isdecimal() for tick in ticks), ticks
        assert len(set(ticks)) == len(ticks)
