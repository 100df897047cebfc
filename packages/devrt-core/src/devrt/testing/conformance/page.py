"""A report as an HTML page that needs nothing beside itself: no network, no other file."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from pathlib import Path

from devrt.testing.conformance.coverage import TITLES
from devrt.testing.conformance.report import CaseResult, Report, Status

__all__ = ["page", "save_page"]

_STYLE = """
:root { color-scheme: light dark; --ground: #fbfbfa; --card: #ffffff; --text: #1f2328;
  --soft: #656d76; --line: #d9dde2; --good: #1a7f37; --bad: #c4232b; --late: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ground: #101418; --card: #171c22; --text: #e6e9ed;
  --soft: #95a0ab; --line: #2c343d; --good: #4ac26b; --bad: #ff7b72; --late: #d8a335; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; background: var(--ground);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; text-wrap: balance; }
.verdict { margin: .25rem 0 1.5rem; font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 1.5rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px;
  background: var(--card); margin-bottom: 1.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .45rem .75rem;
  border-top: 1px solid var(--line); }
thead th { border-top: 0; font-size: .8rem; color: var(--soft); white-space: nowrap; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
td.number { text-align: right; } .zero { color: var(--soft); }
.status { font-weight: 600; white-space: nowrap; }
.passed { color: var(--good); } .failed, .crashed { color: var(--bad); }
.timed_out { color: var(--late); } .not_applicable { color: var(--soft); }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { margin: .5rem 0 0; padding: .6rem .75rem; background: var(--ground); border-radius: 6px;
  overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.soft { color: var(--soft); } p { margin: .2rem 0; }
.filter { display: flex; gap: 1rem; flex-wrap: wrap; margin: 0 0 .75rem; color: var(--soft); }
"""

_SCRIPT = """
const body = document.querySelector('#cases tbody'), heads = document.querySelectorAll('#cases th');
heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {
  const up = head.getAttribute('aria-sort') !== 'ascending';
  heads.forEach(other => other.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = row => row.cells[column].dataset.key;
  [...body.rows].map((row, index) => [row, index]).sort(([a, i], [b, j]) =>
    (key(a) - key(b) || 0) * (up ? 1 : -1) || i - j).forEach(([row]) => body.append(row));
}));
document.querySelectorAll('.filter input').forEach(box => box.addEventListener('change', () =>
  body.querySelectorAll(`tr[data-status=${box.value}]`)
    .forEach(row => { row.hidden = !box.checked; })));
"""

_WORST_FIRST = (
    Status.CRASHED,
    Status.TIMED_OUT,
    Status.FAILED,
    Status.NOT_APPLICABLE,
    Status.PASSED,
)


def save_page(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as an HTML page."""
    Path(path).write_text(page(report), encoding="utf-8")


def page(report: Report) -> str:
    """Return a report as an HTML page."""
    name = _text(report.name)
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>Conformance of {name}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style></head><body>\n"
        f"<h1>Conformance of {name}</h1>\n"
        f'<p class="verdict {"good" if report.ok else "bad"}">{_text(report.verdict())}</p>\n'
        f"{_facts(report)}{_levels(report)}{_coverage(report)}{_reasons(report)}{_cases(report)}"
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _facts(report: Report) -> str:
    shown = {**report.subject, **report.environment}
    rows = [
        f"<dt>{_text(key.replace('_', ' '))}</dt><dd>{_text(_words(value))}</dd>"
        for key, value in shown.items()
        if value not in ("", None, [])
    ]
    return f"<dl>{''.join(rows)}</dl>\n"


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _levels(report: Report) -> str:
    heads = "".join(f"<th>{status.words}</th>" for status in Status)
    rows = []
    for level, counts in report.summary().items():
        cells = "".join(
            f'<td class="{status.value if counts[status.value] else "zero"}">'
            f"{counts[status.value]}</td>"
            for status in Status
        )
        rows.append(f"<tr><th>{_text(level)}</th>{cells}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr><th>level</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>\n"
    )


def _coverage(report: Report) -> str:
    rows = "".join(
        f"<dt>{len(names)} {TITLES[part]}</dt><dd>{_text(', '.join(names))}</dd>"
        for part, names in report.coverage().items()
        if names
    )
    return f"<h2>The C API</h2><dl>{rows}</dl>\n" if rows else ""


def _reasons(report: Report) -> str:
    items = "".join(
        f"<li>{_text(reason)} "
        f"<span class=soft>({len(cases)}: {_text(', '.join(cases))})</span></li>"
        for reason, cases in report.not_applicable().items()
    )
    return f"<h2>Not applicable</h2><ul>{items}</ul>\n" if items else ""


def _cases(report: Report) -> str:
    heads = "".join(
        f"<th><button type=button>{name}</button></th>"
        for name in ("level", "case", "status", "seconds")
    )
    boxes = "".join(
        f"<label><input type=checkbox checked value={status.value}> {status.words}</label>"
        for status in Status
    )
    return (
        f'<h2>Cases</h2><div class="filter">{boxes}</div>\n'
        f'<div class="scroll"><table id="cases"><thead><tr>{heads}</tr></thead><tbody>\n'
        f"{''.join(_rows(report))}</tbody></table></div>\n"
    )


def _rows(report: Report) -> Iterator[str]:
    levels = list(report.summary())
    names = sorted(result.id for result in report.results)
    for result in report.results:
        status = result.status
        yield (
            f"<tr data-status={status.value}>"
            f"<td data-key={levels.index(result.level)}>{_text(result.level)}</td>"
            f"<td data-key={names.index(result.id)}>{_about(result)}</td>"
            f'<td data-key={_WORST_FIRST.index(status)} class="status {status.value}">'
            f"{status.words}</td>"
            f'<td data-key={result.seconds:.6f} class="number">{result.seconds:.3f}</td></tr>\n'
        )


def _about(result: CaseResult) -> str:
    name = result.id.partition(".")[2]
    lines = [f"<code>{_text(name)}</code><p class=soft>{_text(result.title)}</p>"]
    if result.status.is_failure:
        lines.append(f"<p><b>expected</b> {_text(result.expected)}</p>")
        lines.append(f"<p><b>came</b> {_text(result.came)}</p>")
        lines.append(f"<p class=soft>contract: {_text(result.contract)}</p>")
    elif result.came:  # what it measured
        lines.append(f"<p>{_text(result.came)}</p>")
    if result.reason:
        lines.append(f"<p>{_text(result.reason)}</p>")
    if result.output:
        lines.append(f"<pre>{_text(result.output)}</pre>")
    return "".join(lines)
