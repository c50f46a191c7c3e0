"""Templates: texts with `{{ ... }}` in labels and annotations, a subset of Prometheus's.

Source: Prometheus 3, 'Template reference' and 'Template examples'; Go, package text/template.
Limits: no define, template, block, break, continue; no HTML and link functions. `$value`,
`$labels`, `$externalLabels` and `$externalURL` are as in Prometheus; the last two are empty except
in unit tests. What is not supported is refused at load.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.automaton import RegexError, Steps
from iowarden.rules.rulefile.printf import Struct, Value
from iowarden.rules.rulefile.template_functions import (
    FUNCTIONS,
    SHIPPED_FUNCTIONS,
    RenderError,
)
from iowarden.rules.rulefile.template_parser import Output, Query, Scope, Write, compile_text

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_STEPS = 1_000_000
"""Of the work on one text, or on all texts of a rule's alerts: about one second.

A step is one of a regular expression, an iteration, a call, or COPIED_PER_STEP copied characters.
"""


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template; numbers are as in Prometheus, in a shipped one as in other texts."""

    text: str
    is_shipped: bool = False

    def render(
        self,
        labels: Mapping[str, str],
        value: float,
        query: Query | None,
        external_labels: Mapping[str, str] | None = None,
        external_url: str = "",
        steps: Steps | None = None,
    ) -> str:
        """Return the text for one alert; the work on it is taken from `steps`.

        Errors: none; an error is written into the text, so that no alert is lost.
        """
        own, external = dict(labels), dict(external_labels or {})
        root = Struct(
            "struct",
            {
                "Labels": own,
                "ExternalLabels": external,
                "ExternalURL": external_url,
                "Value": value,
            },
        )
        if "{{" not in self.text:  # The usual case for labels.
            return self.text
        write, slots = _compiled(self.text, self.is_shipped)
        variables: list[Value] = [root, own, external, external_url, value, *[None] * slots]
        output, steps = Output(), steps or Steps(MAX_STEPS)
        try:
            write(Scope(root, variables, query, steps), output)
        except (RenderError, RegexError, RecursionError) as error:
            steps.left -= output.characters  # of a whole text its reader counts them
            return f"<error expanding template: {error}>"
        return str(output)


def compile_template(text: str, *, is_shipped: bool = False) -> Template:
    """Compile a text.

    Errors: TemplateError with line and column; also for a constant query that is not valid PromQL.
    """
    if "{{" in text:
        compile_text(text)  # Only to find errors: most alerts never fire.
    return Template(text, is_shipped)


@functools.lru_cache(maxsize=256)
def _compiled(text: str, is_shipped: bool) -> tuple[Write, int]:  # noqa: FBT001 - a cache's key
    """Compile a template that is rendered: those of all shipped rules would take over 2 MB."""
    return compile_text(text, SHIPPED_FUNCTIONS if is_shipped else FUNCTIONS)
