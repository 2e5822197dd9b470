"""Checks of one page in a browser: a phone, a screen reader, a keyboard, and a browser without JavaScript."""

from playwright.sync_api import Page

from tests.lrq.console import browser

#: The width of a phone, and its height.
PHONE = {"width": 390, "height": 844}
#: Marks each element that a person may use, and returns the marks.
_MARK = """() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter((each) => each.type !== 'hidden' && each.checkVisibility())
    .map((each, at) => each.dataset.mark = String(at))"""
#: The mark of the element with the focus, and whether an outline shows the focus.
_FOCUS = """() => [document.activeElement.dataset.mark ?? null,
    getComputedStyle(document.activeElement).outlineStyle === 'solid']"""
#: The texts of headings, names and buttons: all but the figures, which change from second to second.
_OUTLINE = "main :is(h1, h2, th, dt, label, button)"


def brightness(page: Page) -> int:
    """Return the brightness of the page's background, from 0 to 765."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(each) for each in colour.removeprefix("rgb(").removesuffix(")").split(","))


def assert_fits_a_phone(page: Page) -> None:
    """Check that the page is no wider than the phone, and that axe finds no violation there."""
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    found = browser.violations(page)
    assert found == []


def assert_has_landmarks(page: Page) -> None:
    """Check for one heading of the page, one main part and a title: the marks of a screen reader."""
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("main").count() == 1
    assert "lrq console" in page.title()


def assert_keyboard_reaches_everything(page: Page) -> None:
    """Check that the Tab key reaches each link, field and button, and that each shows the focus."""
    pause = page.get_by_role("button", name="Pause")
    if pause.is_visible():
        # A part that is replaced would lose the marks of this test.
        pause.click()
        page.evaluate("document.activeElement.blur()")
    wanted = set(page.evaluate(_MARK))
    reached: set[str] = set()
    for _ in range(2 * len(wanted) + 5):
        page.keyboard.press("Tab")
        mark, is_seen = page.evaluate(_FOCUS)
        # A field for a time has several parts. Chromium outlines the field for the first one only.
        reached |= {mark} if is_seen else set()
    assert wanted - reached == set(), [page.locator(f'[data-mark="{each}"]').inner_html() for each in wanted - reached]


def outline(page: Page) -> list[str]:
    """Return the headings, names and buttons that the page shows."""
    return [each.inner_text() for each in page.locator(_OUTLINE).all() if each.is_visible()]
