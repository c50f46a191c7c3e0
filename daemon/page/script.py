"""The script of the status page, and its hash for the Content-Security-Policy.

It fetches the page again, and replaces what it shows. Without a script there is the link 'Reload'.
Source: WCAG 2.2, 2.2.2: what updates itself can be paused.
"""

from __future__ import annotations

import base64
import hashlib

SECONDS = 10
"""Between two updates: a reader follows a stall, and the page takes the loop a few milliseconds."""

SCRIPT = """
(() => {
  const state = document.querySelector(".at"), bar = document.querySelector(".top");
  const button = document.createElement("button");
  let paused = false, pressed = false;
  const label = () => { button.textContent = paused ? "Resume updates" : "Pause updates"; };
  button.type = "button";
  button.addEventListener("click", () => { paused = !paused; label(); });
  label();
  bar.append(button);
  for (const [name, value] of [["pointerdown", true], ["pointerup", false],
      ["pointercancel", false]])
    addEventListener(name, () => { pressed = value; });
  // A reader who selects text, or whose focus is in it, would lose both.
  const busy = () => paused || pressed || document.hidden || !getSelection().isCollapsed
    || document.querySelector("main :focus-visible") !== null;
  const key = (summary) => summary.textContent.replace(/[0-9]+/g, "");
  const update = async () => {
    if (busy()) return;
    try {
      const answer = await fetch(location.href, {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const old = document.querySelector("main"), next = fresh.querySelector("main");
      if (busy()) return;
      const open = new Set([...old.querySelectorAll("details[open]>summary")].map(key));
      for (const summary of next.querySelectorAll("details>summary"))
        summary.parentNode.open = open.has(key(summary));
      const left = new Map([...old.querySelectorAll(".scroll")].map(
        (table) => [table.getAttribute("aria-label"), table.scrollLeft]));
      old.replaceWith(next);
      for (const table of next.querySelectorAll(".scroll"))
        table.scrollLeft = left.get(table.getAttribute("aria-label")) || 0;
      document.title = fresh.title;
      for (const part of ["h1", ".at"])
        document.querySelector(part).replaceChildren(...fresh.querySelector(part).childNodes);
      state.classList.remove("late");
    } catch {
      if (!state.classList.contains("late")) state.append("; no answer since, trying again");
      state.classList.add("late");
    }
  };
  const again = () => setTimeout(() => update().finally(again), SECONDS * 1000);
  again();
})();
""".replace("SECONDS", str(SECONDS))
DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
