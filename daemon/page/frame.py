"""What all pages share: frame, navigation, tables, texts of several lines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.page.html import SPACE, Markup, join, paragraph, tag, text
from iowarden.daemon.page.script import SCRIPT
from iowarden.daemon.page.style import STYLE
from iowarden.daemon.terminal.times import at_text, since_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.daemon.control.documents import EventLine

Shown = TypeVar("Shown")
Columns = Mapping[str, tuple[str, Callable[[Shown], str]]]
"""Kind and cell by title."""
STATES = frozenset({"critical", "warning", "notice", "info", "ok", "unknown"})
NUMBER, WIDE, KEY, HEAD = "n", "w", "k", "h"
"""Kinds of columns: figures at the right, texts that wrap, names that do not, the row's name."""


def badge(word: str, shown: str = "") -> Markup:
    """Return a word on its colour; the word alone has the same meaning."""
    return tag("span", shown or word, class_=f"badge {word if word in STATES else 'notice'}")


def link(target: str, shown: str) -> Markup:
    """Return a link to a page of ours."""
    return tag("a", shown, href=target)


def section(identifier: str, title: str, *content: Markup | None) -> Markup:
    """Return a part of a page that navigation can reach."""
    heading = tag("h2", title, id=f"{identifier}-title")
    return tag("section", heading, *content, id=identifier, aria_labelledby=f"{identifier}-title")


def table(
    caption: str,
    rows: Sequence[Shown],
    columns: Columns[Shown],
    *,
    stack: bool = False,
) -> Markup:
    """Return a table, which a keyboard can scroll where it is wider than the screen.

    Without columns that are empty in every row. `stack`: on a phone each row is a block, since its
    texts are long.
    """
    cells = {title: [cell(row) for row in rows] for title, (_, cell) in columns.items()}
    shown = [title for title in columns if any(cells[title])]
    kinds = {title: columns[title][0] for title in shown}
    head = join(
        *[
            tag("th", title, scope="col", class_="n" if kinds[title] == NUMBER else None)
            for title in shown
        ]
    )
    body = []
    for number in range(len(rows)):
        parts = []
        for title in shown:
            content = cells[title][number]
            if kinds[title] == HEAD:
                own = content if isinstance(content, Row) else Row(content)
                parts.append(tag("th", own, scope="row", class_=own.kind or None))
            else:
                parts.append(_cell(kinds[title], content))
        body.append(Markup(f"<tr>{''.join(parts)}</tr>"))
    drawn = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", head)),
        Markup(f"<tbody>{''.join(body)}</tbody>"),
        class_="stack" if stack else None,
    )
    return tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _cell(kind: str, content: str) -> Markup:
    shown = content if isinstance(content, Markup) else text(content)
    return Markup(f'<td class="{kind}">{shown}</td>' if kind else f"<td>{shown}</td>")


class Row(Markup):
    """The name of a row, with the class of its cell."""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, content: str, kind: str = "") -> Row:  # noqa: PYI034 - Self is of Python 3.11
        """Escape what is no markup."""
        own = super().__new__(cls, content if isinstance(content, Markup) else text(content))
        own.kind = kind
        return own


def event_table(caption: str, events: Sequence[EventLine], now: float) -> Markup:
    """Return events as a table."""
    return table(
        caption,
        events,
        {
            "time": (HEAD, lambda e: Row(since_text(e.at_seconds, now), KEY)),
            "severity": ("", lambda e: badge(e.severity) if e.severity else ""),
            "source": (KEY, lambda e: e.source),
            "object": (WIDE, lambda e: e.object),
            "text": (WIDE, lambda e: e.text),
            "count": (NUMBER, lambda e: str(e.count) if e.count > 1 else ""),
        },
        stack=True,
    )


def block(content: str) -> Markup:
    """Return a text of several lines: paragraphs, and commands, which are indented."""
    parts: list[Markup] = []
    commands: list[str] = []

    def flush() -> None:
        if commands:
            lines = "\n".join(paragraph(line) for line in commands)
            parts.append(
                tag(
                    "pre",
                    tag("code", Markup(lines)),
                    tabindex=0,
                    aria_label="commands",
                    role="group",
                )
            )
            commands.clear()

    for line in content.splitlines():
        if line.startswith("  ") and line.strip():
            commands.append(line)
        elif line.strip():
            flush()
            parts.append(tag("p", paragraph(line)))
    flush()
    return join(*parts)


def listed(items: Iterable[str]) -> Markup:
    """Return texts as a list; '' for none."""
    found = [tag("li", paragraph(each)) for each in items]
    return tag("ul", *found, class_="plain") if found else Markup("")


def pairs(found: Iterable[tuple[str, str | Markup]]) -> Markup:
    """Return names and values; '' for none."""
    parts = [
        join(tag("dt", name), tag("dd", value if isinstance(value, Markup) else paragraph(value)))
        for name, value in found
        if value
    ]
    return tag("dl", *parts) if parts else Markup("")


def folded(title: str, *content: Markup | None) -> Markup:
    """Return what is shown after a click or Enter; '' without content."""
    return tag("details", tag("summary", title), *content) if any(content) else Markup("")


@dataclass(frozen=True, slots=True)
class Frame:
    """Version, time of the state as Unix seconds, and whether its reader is authenticated."""

    version: str
    at_seconds: float
    full: bool
    """False: anonymous readers."""


def page(
    frame: Frame,
    *,
    title: str,
    heading: Markup,
    here: str,
    content: Iterable[Markup | None],
    sections: Iterable[tuple[str, str]] = (),
    home: bool = False,
) -> bytes:
    """Return a complete page. `here` is its own address; `sections`: identifier and title."""
    items = [tag("li", link("/", "Overview"))] if home else []
    items += [tag("li", link(f"#{identifier}", name)) for identifier, name in sections]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    body = tag(
        "body",
        tag("a", "Skip to content", href="#content", class_="skip"),
        tag(
            "header",
            tag(
                "div",
                heading,
                tag("span", f"State of {at_text(frame.at_seconds)}", class_="at"),
                tag("a", "Reload", href=here),
                class_="top",
            ),
            tag("nav", tag("ul", *items), aria_label="Sections") if items else None,
        ),
        tag("main", *content, id="content"),
        tag(
            "footer",
            tag(
                "p",
                f"iowarden {frame.version};",
                SPACE,
                link("/metrics", "metrics"),
                ""
                if frame.full
                else "; kernel lines, file names, programs and reasons are not shown"
                " here: 'iowarden status' and 'iowarden incident show' on the host show them",
            ),
        ),
        tag("script", Markup(SCRIPT)),
    )
    html = tag("html", head, body, lang="en")
    return b"<!doctype html>\n" + html.encode(errors="replace") + b"\n"
